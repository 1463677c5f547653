"""The store as a catalog: what new documents may refer to."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.specs.kind import Kind, SpecModel
from controlplane.specs.names import Reference
from controlplane.store.revision import Revision
from controlplane.store.revision_cache import read_revisions
from controlplane.store.revision_ids import find_ids, latest_ids
from controlplane.store.tables import RevisionRow


class StoreCatalog:
    """Documents applied before, seen from one session, as they are when they are first asked for
    (see controlplane.specs.references)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def names(self, kind: Kind) -> Iterable[str]:
        """Every document of `kind`."""
        return [name for known, name in self._latest if known == kind]

    def numbers(self, kind: Kind, name: str) -> Sequence[int]:
        """Its revisions, oldest first."""
        query = (
            select(RevisionRow.number)
            .where(RevisionRow.kind == kind.value, RevisionRow.name == name)
            .order_by(RevisionRow.number)
        )
        return self._session.scalars(query).all()

    def find_spec(self, kind: Kind, reference: Reference) -> SpecModel | None:
        """A revision's spec, or None. Raises StoredDocumentError."""
        if reference.number is None:
            found = self._latest.get((kind, reference.name))
        else:
            found = find_ids(self._session, {(kind, reference)}).get((kind, reference))
        return None if found is None else self._get(found).any_spec()

    @cached_property
    def _latest(self) -> dict[tuple[str, str], int]:
        return latest_ids(self._session)

    @cached_property
    def _revisions(self) -> dict[int, Revision]:
        """All that are the latest, read together: a check of names asks for nearly all of them."""
        try:
            return read_revisions(self._session, set(self._latest.values()))
        except ValueError:  # one is no JSON, and may be none that anybody asks for
            return {}

    def _get(self, revision_id: int) -> Revision:
        if revision_id not in self._revisions:
            self._revisions.update(read_revisions(self._session, {revision_id}))
        return self._revisions[revision_id]

"""The store as a catalog: what new documents may refer to."""

from collections.abc import Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.specs.document import read_stored_spec
from controlplane.specs.kind import Kind, SpecModel
from controlplane.specs.names import Reference
from controlplane.store.revisions import find_latest, find_revision
from controlplane.store.tables import RevisionRow


class StoreCatalog:
    """Documents applied before, seen from one session (see controlplane.specs.references)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def names(self, kind: Kind) -> Iterable[str]:
        """Every document of `kind`."""
        query = select(RevisionRow.name).where(RevisionRow.kind == kind.value).distinct()
        return self._session.scalars(query).all()

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
            revision = find_latest(self._session, kind, reference.name)
        else:
            revision = find_revision(self._session, kind, reference.name, reference.number)
        return None if revision is None else read_stored_spec(kind, revision.document)

"""One revision, as it is read from the store."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from controlplane.specs.document import read_stored_spec
from controlplane.specs.kind import Kind, SpecModel
from controlplane.store.tables import RevisionRow

SpecT = TypeVar("SpecT", bound=SpecModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One immutable version of one config document."""

    id: int
    kind: Kind
    name: str
    number: int
    digest: str
    """SHA-256 of the canonical JSON of `document`, in hex."""
    document: dict[str, Any]
    """In canonical form."""
    author: str
    reason: str
    created_at_unix_ns: int
    _spec: SpecModel | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def label(self) -> str:
        """`name@number`: how decisions, records and people cite it."""
        return revision_label(self.name, self.number)

    def spec(self, spec_type: type[SpecT]) -> SpecT:
        """The spec, checked. `spec_type` is the class of this revision's kind.

        Raises StoredDocumentError for a document that this version cannot read, TypeError for
        a class of another kind.
        """
        spec = self.any_spec()
        if not isinstance(spec, spec_type):
            raise TypeError(f"{self.kind} {self.label} is no {spec_type.__name__}")
        return spec

    def any_spec(self) -> SpecModel:
        """The spec, of whatever kind; checked once. Raises StoredDocumentError."""
        if self._spec is None:
            object.__setattr__(self, "_spec", read_stored_spec(self.kind, self.document))
        assert self._spec is not None, "it was just read"
        return self._spec


def revision_label(name: str, number: int) -> str:
    """`name@number`."""
    return f"{name}@{number}"


def read_revision(row: RevisionRow) -> Revision:
    """The record of a row."""
    return Revision(
        id=row.id,
        kind=Kind(row.kind),
        name=row.name,
        number=row.number,
        digest=row.digest,
        document=row.document,
        author=row.author,
        reason=row.reason,
        created_at_unix_ns=row.created_at_unix_ns,
    )

"""What documents say beside what is stored, field by field."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controlplane.specs.diff import diff_documents


class DocumentAction(StrEnum):
    """What applying a document does."""

    CREATE = "create"
    UPDATE = "update"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedField:
    """One place that differs; texts are as a document would have them, empty where there is
    nothing."""

    path: str
    kind: str
    """added, removed, changed or reordered."""
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDocument:
    """One document of the files."""

    kind: str
    name: str
    action: DocumentAction
    before: str | None
    """The latest revision that is stored, as `name@number`; None: there is none."""
    after: str
    """The revision that would be the latest."""
    digest: str
    fields: tuple[ChangedField, ...]
    """None of a document that is created: all of it is new."""

    @property
    def key(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"


def changed_fields(
    before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> tuple[ChangedField, ...]:
    """Of two documents in canonical form; nothing for one that was not there before."""
    if before is None:
        return ()
    return tuple(
        ChangedField(
            path=each.path,
            kind=each.kind.value,
            before=each.before_text,
            after=each.after_text,
        )
        for each in diff_documents(before, after)
    )

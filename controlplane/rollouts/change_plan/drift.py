"""Where what runs, what is stored and what the files say are not the same. Shown, never repaired
by itself."""

from dataclasses import dataclass
from enum import StrEnum


class DriftKind(StrEnum):
    """What keeps a deployment, or a document, from being what it seems."""

    UNDER_WAY = "under_way"
    """A rollout moves it."""
    HELD_BACK = "held_back"
    """A rollout to it was aborted, and is not tried again by itself."""
    PINNED = "pinned"
    """Its document names an older revision."""
    OVERRIDDEN = "overridden"
    """Break-glass: something else is enforced for a time."""
    UNSETTLED = "unsettled"
    """The operator has not brought about yet what is desired."""
    NOT_IN_FILES = "not_in_files"
    """It is stored, and no file holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference."""

    kind: DriftKind
    subject: str
    """As `Kind/name`."""
    says: str
    """In a sentence: what is where, and why."""

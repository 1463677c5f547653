"""One process that should not be, as the operator judged it."""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.hooks import StrayProcess


class StrayJudgement(StrEnum):
    """What a stray is, by what the database knows of its replica."""

    ZOMBIE = "zombie"
    """Its replica has ended, or runs as another process."""
    ORPHAN = "orphan"
    """No replica was ever called that."""
    INTRUDER = "intruder"
    """It listens on a replica's port, and is none of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """One of them, as console and API show it."""

    stray_id: str
    kind: StrayJudgement
    launcher: str
    process: StrayProcess
    why: str
    found_at_unix_ns: int
    seen_at_unix_ns: int
    """The last look that told of it."""
    num_looks: int = 1
    error: str | None = None
    """Why it could not be ended."""
    ended_at_unix_ns: int | None = None
    """When a look found it gone; None: it is there."""

"""How a gateway bears clients that read more slowly than their engine produces."""

from dataclasses import dataclass
from enum import StrEnum


class SlowClientAction(StrEnum):
    """What becomes of a stream whose client takes it more slowly than its engine produces it."""

    PAUSE = "pause"
    """Its engine is asked to wait, or held up where it cannot be asked."""
    END = "end"
    """It is ended early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClientTerms:
    """What a gateway keeps of an answer that its client does not take, and what follows."""

    max_waiting_bytes: int = 256 * 2**10
    """Of one request. No more is taken of its engine where twice as much waits."""
    then: SlowClientAction = SlowClientAction.PAUSE
    """What happens beyond that."""
    pause_seconds: float = 15.0
    """All pauses of a request together; it is ended then. Below the time after which a replica
    that takes no step counts as hung: all its slots may be paused at once."""

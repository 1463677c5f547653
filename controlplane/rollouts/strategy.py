"""How a rollout goes: its steps, and when it ends where nothing is decided."""

from dataclasses import dataclass
from enum import StrEnum


class OnTimeout(StrEnum):
    """What becomes of a step that was judged neither good nor bad in its time."""

    PAUSE = "pause"
    """It waits for a person."""
    ABORT = "abort"
    """The rollout goes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One share of the traffic for the candidate."""

    share: float
    """0 to 1."""
    seconds: float = 0.0
    """How long it is looked at, at least."""
    waits_for_person: bool = False
    """Also a good one ends only when somebody lets it."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.seconds < 0:
            raise ValueError(
                "a step needs a share above 0 and of at most 1, and seconds of at least 0; got "
                f"{self.share:g} and {self.seconds:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The steps of a rollout, in order; after the last the candidate is what runs."""

    steps: tuple[Step, ...]
    timeout_seconds: float
    """Of a step, from its begin."""
    on_timeout: OnTimeout = OnTimeout.PAUSE

    def __post_init__(self) -> None:
        shares = [step.share for step in self.steps]
        if not shares or shares != sorted(set(shares)):
            told = ", ".join(f"{100 * share:g} %" for share in shares) or "none"
            raise ValueError(f"steps need shares that grow; got {told}")
        longest = max(step.seconds for step in self.steps)
        if self.timeout_seconds <= longest:
            raise ValueError(
                f"timeout is {self.timeout_seconds:g} s, and a step is looked at for at least "
                f"{longest:g} s: no such step could end well"
            )

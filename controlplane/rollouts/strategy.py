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
    """0 to 1; 0 of one in shadow."""
    seconds: float = 0.0
    """How long it is looked at, at least."""
    waits_for_person: bool = False
    """Also a good one ends only when somebody lets it."""
    is_shadow: bool = False
    """The candidate's policy decides on every request, and enforces nothing."""
    different_at_most: float | None = None
    """In shadow: the share of requests, 0 to 1, that may be decided otherwise; None: any."""

    def __post_init__(self) -> None:
        is_share = self.share == 0 if self.is_shadow else 0 < self.share <= 1
        if not is_share or self.seconds < 0:
            raise ValueError(
                "a step needs a share above 0 and of at most 1, or none in shadow, and seconds of "
                f"at least 0; got {self.share:g} and {self.seconds:g}"
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
        if self.steps[-1].is_shadow:
            raise ValueError(
                "a step in shadow gives nothing to the candidate: one has to follow it"
            )
        longest = max(step.seconds for step in self.steps)
        if self.timeout_seconds <= longest:
            raise ValueError(
                f"timeout is {self.timeout_seconds:g} s, and a step is looked at for at least "
                f"{longest:g} s: no such step could end well"
            )

    def share_ahead(self, step: int) -> float:
        """What the candidate has to be ready for at a step: in shadow, its first share."""
        return next(each.share for each in self.steps[step:] if not each.is_shadow)

"""How many requests an objective applied to, and how many of them met it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCounts:
    """Of one objective over some time. Times are put together by adding counts, never by taking
    the mean of ratios, in which a minute of three requests weighs as much as one of thousands."""

    good: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.good <= self.total:
            raise ValueError(
                f"good events are some of all events; got {self.good} good of {self.total}"
            )

    @classmethod
    def summed(cls, good: int, total: int) -> "EventCounts":
        """From sums of what is kept. What a client's report corrects may stand in another minute
        than what it corrects, where an older release counted that: of a time that has but one of
        them no count is below 0."""
        whole = max(0, total)
        return cls(good=min(max(0, good), whole), total=whole)

    @property
    def bad(self) -> int:
        """Those that spend budget."""
        return self.total - self.good

    @property
    def error_ratio(self) -> float | None:
        """From 0 to 1; None where there was nothing to judge."""
        return self.bad / self.total if self.total else None

    def __add__(self, other: "EventCounts") -> "EventCounts":
        return EventCounts(good=self.good + other.good, total=self.total + other.total)


NO_EVENTS = EventCounts(good=0, total=0)

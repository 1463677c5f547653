"""A clock that stands where a test puts it."""

from dataclasses import dataclass


@dataclass
class PlainClock:
    """In seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

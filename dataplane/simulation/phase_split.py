"""Prefill and decode on units of their own: how many of each, and which of them is short.

A split serves as many requests as the phase serves that is short. What each phase needs follows
from the traffic, so a ratio that was right is wrong when prompts get longer; more units in the
old ratio leave the same share of them idle.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from dataplane.simulation.timeline import Action, Timeline


class Phase(StrEnum):
    """The two halves of a request's work."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDemand:
    """Seconds of one unit that one request needs in each phase, on average; both above 0."""

    prefill: float
    decode: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSplit:
    """Units of each phase. Raises ValueError without one of either."""

    prefill: int
    decode: int

    def __post_init__(self) -> None:
        if self.prefill < 1 or self.decode < 1:
            raise ValueError(
                f"{self.prefill} prefill and {self.decode} decode units serve nobody; one of each"
            )

    @property
    def num_units(self) -> int:
        """Of both phases."""
        return self.prefill + self.decode

    def scaled(self, factor: int) -> "PhaseSplit":
        """`factor` times the units, in the same ratio."""
        return PhaseSplit(prefill=self.prefill * factor, decode=self.decode * factor)

    def sustainable_per_second(self, demand: PhaseDemand) -> float:
        """Requests a second that both phases keep up with."""
        return min(self.prefill / demand.prefill, self.decode / demand.decode)

    def short_phase(self, demand: PhaseDemand) -> Phase | None:
        """The phase that is short; None when both serve the same."""
        prefill, decode = self.prefill / demand.prefill, self.decode / demand.decode
        if prefill == decode:
            return None
        return Phase.PREFILL if prefill < decode else Phase.DECODE


def best_split(num_units: int, demand: PhaseDemand) -> PhaseSplit:
    """The split of so many units that serves most; of equal ones, that with fewer for prefill.

    Raises ValueError for fewer than two units.
    """
    splits = [PhaseSplit(prefill=n, decode=num_units - n) for n in range(1, num_units)]
    if not splits:
        raise ValueError(f"{num_units} units cannot be split in two; at least 2")
    return max(splits, key=lambda split: split.sustainable_per_second(demand))


class UnitPool:
    """Units that do one piece of work each; what finds none free waits, in order."""

    def __init__(self, timeline: Timeline, num_units: int) -> None:
        self._timeline = timeline
        self._num_free = num_units
        self._waiting: deque[tuple[float, Action]] = deque()

    @property
    def num_waiting(self) -> int:
        """Pieces of work without a unit."""
        return len(self._waiting)

    @property
    def num_free(self) -> int:
        """Units without work."""
        return self._num_free

    def submit(self, seconds: float, on_end: Action) -> None:
        """Work that takes one unit so long; `on_end()` happens when it is done."""
        self._waiting.append((seconds, on_end))
        self._start()

    def _start(self) -> None:
        while self._num_free and self._waiting:
            seconds, on_end = self._waiting.popleft()
            self._num_free -= 1
            self._timeline.after(seconds, partial(self._end, on_end))

    def _end(self, on_end: Action) -> None:
        self._num_free += 1
        self._start()
        on_end()


class SplitService:
    """Requests that pass through a prefill unit, then through a decode unit."""

    def __init__(self, timeline: Timeline, split: PhaseSplit, demand: PhaseDemand) -> None:
        self.prefill = UnitPool(timeline, split.prefill)
        self.decode = UnitPool(timeline, split.decode)
        self._demand = demand

    def submit(self, on_end: Action) -> None:
        """One request; `on_end()` happens when it is decoded."""
        self.prefill.submit(
            self._demand.prefill, lambda: self.decode.submit(self._demand.decode, on_end)
        )

"""Since when: the moment at which a signal that a finding cites changed its level.

The moment is searched by `ruptures` (PELT, squared error), on gauges as they are and on counters as
rates; in a log of a day first among medians of several readings, and then among the readings there.
What was changed shortly before is told with its lag and never called a cause: that one thing
follows another says no more.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.diagnosis import Finding
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.counted_at_end import for_speeds
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import SignalKind

_MIN_READINGS = 8
_MAX_POINTS = 1200
"""At once: what PELT costs grows with the square of them."""
_NEAR_GROUPS = 4
"""On each side of where a level changed among medians, its exact place is looked for."""
_MIN_SEGMENT = 3
"""Readings; fewer are an outlier and no level."""
_PENALTY = 6.0
"""Times noise² x log n: twice what the Bayesian information criterion asks of a change of mean and
its place, since readings a second apart are not independent."""
_MIN_SHIFT_IN_NOISE = 3.0
_MIN_SHIFT_SHARE = 0.1
"""Of the larger level: less is no trouble that anybody looks for."""
_HOLDS_SHARE = 0.9
"""Of the readings on each side: a level may have outliers, and no second level."""
_MAX_LAG_SECONDS = 6 * 3600
"""What was changed longer before is not told; a deployment's history has it."""


@dataclass(frozen=True, slots=True)
class LevelShift:
    """One change of level."""

    at: float
    """The first reading of the new level."""
    before: float
    after: float
    noise: float
    """Standard deviation within a level, from the differences of neighbours."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A change, and how long before the onset it was made."""

    change: Change
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """Since when, by which signal."""

    at: float
    name: str
    """Of the series, as its source calls it."""
    is_rate: bool
    """A counter's, per second."""
    before: float
    after: float
    preceded_by: tuple[Lag, ...]
    """The nearest first."""

    @property
    def sentence(self) -> str:
        """`vllm:num_requests_waiting went from 2 to 40`."""
        rate = " per second" if self.is_rate else ""
        return f"{self.name} went from {number(self.before)} to {number(self.after)}{rate}"


def find_onset(window: Window, finding: Finding, by: float | None = None) -> Onset | None:
    """By the cited signal that changed most, against its own noise, not after `by`, when it was
    seen already. None where none was read often enough or none changed: then it was so from the
    beginning of the window, or nobody can say."""
    names = {cited.name for cited in finding.verdict.cited if not cited.is_beside}
    found = [
        (series, shift)
        for read in window.series
        if read.origin.name in names
        and (series := for_speeds(read, window)) is not None
        and (shift := find_shift(series)) is not None
        and (by is None or shift.at <= by)
    ]
    if not found:
        return None
    series, shift = max(found, key=lambda pair: abs(pair[1].after - pair[1].before) / pair[1].noise)
    return Onset(
        at=shift.at,
        name=series.origin.name,
        is_rate=series.signal.terms.kind is SignalKind.COUNTER,
        before=shift.before,
        after=shift.after,
        preceded_by=_preceding(window.changes, shift.at),
    )


def find_shift(series: Series) -> LevelShift | None:
    """The greatest change of level; None where there is none beyond its noise."""
    return _find_shift(list(_levels(series)))


def _find_shift(points: "list[_Point]") -> LevelShift | None:
    if len(points) > _MAX_POINTS:
        return _find_among_many(points)
    if len(points) < _MIN_READINGS:
        return None
    values = np.array([value for _, value in points])
    noise = _noise(values)
    shifts = [
        (held, LevelShift(points[place][0], *_levels_around(values, place), noise))
        for place in _change_points(values, noise)
        if (held := _held(values, place)) >= _HOLDS_SHARE
    ]
    # Of two places that part nearly the same medians it is the one that parts the readings.
    _, greatest = max(
        shifts, key=lambda each: each[0] * abs(each[1].after - each[1].before), default=(0, None)
    )
    return greatest if greatest is not None and _is_a_shift(greatest) else None


def _find_among_many(points: "list[_Point]") -> LevelShift | None:
    """Among medians of as many readings as make them few enough; the moment then among the
    readings around it. A level of fewer readings than that is an outlier."""
    size = -(-len(points) // _MAX_POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    shift = _find_shift([(group[0][0], median(v for _, v in group)) for group in groups])
    if shift is None:
        return None
    place = next(index for index, group in enumerate(groups) if group[0][0] == shift.at)
    near = groups[max(0, place - _NEAR_GROUPS) : place + _NEAR_GROUPS]
    exact = _find_shift(list(itertools.chain.from_iterable(near)))
    return shift if exact is None else replace(shift, at=exact.at)


_Point = tuple[float, float]
"""Time and value."""


def _levels(series: Series) -> Iterator[tuple[float, float]]:
    """A gauge's values; a counter's rates, without the steps over a restart."""
    if series.signal.terms.kind is not SignalKind.COUNTER:
        yield from ((reading.at, reading.value) for reading in series.readings)
        return
    for before, after in itertools.pairwise(series.readings):
        if after.at > before.at and after.value >= before.value:
            yield after.at, (after.value - before.value) / (after.at - before.at)


def _noise(values: NDArray[np.float64]) -> float:
    """Of neighbours' differences, by their median: a shift is one outlier among them. Never zero,
    since a signal that stood still to the digit may shift by any amount."""
    median = float(np.median(np.abs(np.diff(values))))
    spread = float(values.max() - values.min())
    return max(median / (0.6745 * math.sqrt(2)), 1e-3 * spread, 1e-12)


def _change_points(values: NDArray[np.float64], noise: float) -> list[int]:
    """Where a new level begins."""
    # scipy takes a second to import, and most uses of a window need none
    from ruptures import KernelCPD

    search = KernelCPD(kernel="linear", min_size=_MIN_SEGMENT).fit(values.reshape(-1, 1))
    ends = search.predict(pen=_PENALTY * noise**2 * math.log(len(values)))
    return [int(each) for each in ends[:-1]]


def _levels_around(values: NDArray[np.float64], place: int) -> tuple[float, float]:
    """By the median: a burst is no level."""
    return float(np.median(values[:place])), float(np.median(values[place:]))


def _held(values: NDArray[np.float64], place: int) -> float:
    """The share of the readings on each side that are of that side, the smaller of the two: what
    came and went, or comes in bursts, began at no one moment."""
    before, after = _levels_around(values, place)
    middle = (before + after) / 2
    is_new = (values > middle) == (after > before)
    share_before = float(np.mean(~is_new[:place]))
    share_after = float(np.mean(is_new[place:]))
    return min(share_before, share_after)


def _is_a_shift(shift: LevelShift) -> bool:
    size = abs(shift.after - shift.before)
    larger = max(abs(shift.after), abs(shift.before))
    return size > _MIN_SHIFT_IN_NOISE * shift.noise and size > _MIN_SHIFT_SHARE * larger


def _preceding(changes: Sequence[Change], at: float) -> tuple[Lag, ...]:
    lags = [Lag(change, at - change.at) for change in changes if change.at <= at]
    near = [lag for lag in lags if lag.seconds <= _MAX_LAG_SECONDS]
    return tuple(sorted(near, key=lambda lag: lag.seconds))

"""Doubts about values as such: no numbers, below zero, and percent under a name that says ratio.

A value that cannot be is left out and told; it is never bent into the range.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controlplane.diagnosis.reading import Reading
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.signal import Signal, SignalKind, Unit

_RATIO_AT_MOST = 1.0005
"""Sums of float32 shares pass 1 by as much."""
_PERCENT_FROM = 1.5
"""Between 1 and this it may be a ratio that is wrong as well as one percent."""
_PERCENT_AT_MOST = 100.5
_JUMP = 20.0
"""A cache does not fill twentyfold between two scrapes and stay there; a change of unit is 100."""


class Told(NamedTuple):
    """What a page said."""

    at: float
    value: float
    percent: float | None = None
    """As it was told, where `value` was made a ratio."""

    @property
    def raw_value(self) -> float:
        """As it was told."""
        return self.value if self.percent is None else self.percent


def readings_of(
    name: str, signal: Signal, factor: float, told: Sequence[Told]
) -> tuple[tuple[Reading, ...], tuple[Doubt, ...]]:
    """In the unit of `signal`; `raw` is as it was told."""
    finite = [each for each in told if math.isfinite(each.value)]
    doubts = list(_no_numbers(name, [each for each in told if not math.isfinite(each.value)]))
    possible = [each for each in finite if each.value >= 0]
    doubts += _impossible(name, [each for each in finite if each.value < 0], "below zero")
    if signal.terms.unit is Unit.RATIO and signal.terms.kind is SignalKind.GAUGE:
        possible, more = _ratio(name, factor, possible)
        doubts += more
    readings = tuple(
        Reading(each.at, each.value * factor, plain_number(each.raw_value)) for each in possible
    )
    return readings, tuple(doubts)


def _ratio(name: str, factor: float, told: Sequence[Told]) -> tuple[list[Told], list[Doubt]]:
    greatest = max((each.value * factor for each in told), default=0.0)
    if greatest <= _RATIO_AT_MOST:
        return list(told), []
    if _PERCENT_FROM < greatest <= _PERCENT_AT_MOST:
        return _percent(name, factor, told)
    possible = [each for each in told if each.value * factor <= _RATIO_AT_MOST]
    beyond = [each for each in told if each.value * factor > _RATIO_AT_MOST]
    return possible, list(_impossible(name, beyond, "above 1, and it is a ratio"))


def _percent(name: str, factor: float, told: Sequence[Told]) -> tuple[list[Told], list[Doubt]]:
    """All of them; only those from the jump on where a ratio was told before."""
    place = next(i for i, each in enumerate(told) if each.value * factor > _RATIO_AT_MOST)
    first = told[place]
    before = max((each.value for each in told[:place]), default=0.0)
    is_jump = 0 < before * _JUMP <= first.value
    since = place if is_jump else 0
    read = [
        each if index < since else Told(each.at, each.value * 0.01, each.value)
        for index, each in enumerate(told)
    ]
    guessed = Doubt(
        kind=DoubtKind.UNIT_GUESSED,
        name=name,
        what=f"{name} is {plain_number(first.value)} where a ratio of 0 to 1 is expected; it is "
        f"read as percent{' from then on' if is_jump else ''}",
        at=first.at,
    )
    return read, [guessed]


def _no_numbers(name: str, told: Sequence[Told]) -> Iterable[Doubt]:
    if told:
        yield Doubt(
            kind=DoubtKind.OUT_OF_RANGE,
            name=name,
            what=f"{name} is {told[0].value!r}{_times(told)}; left out, not taken for 0",
            at=told[0].at,
        )


def _impossible(name: str, told: Sequence[Told], why: str) -> Iterable[Doubt]:
    if told:
        yield Doubt(
            kind=DoubtKind.OUT_OF_RANGE,
            name=name,
            what=f"{name} is {plain_number(told[0].value)}{_times(told)}, {why}; left out",
            at=told[0].at,
        )


def _times(told: Sequence[Told]) -> str:
    return f" in {len(told)} readings" if len(told) > 1 else ""

"""Signals that an engine does not export and that follow from those it does."""

from collections.abc import Callable, Sequence

from controlplane.diagnosis.reading import Origin, Reading, Series
from controlplane.diagnosis.sources.plain_number import plain_number
from dataplane.engine_metrics.signal import Signal

_Combine = Callable[[float, float], float | None]


def derived(series: Sequence[Series]) -> list[Series]:
    """Of one endpoint. What it exports itself is never computed again."""
    found = list(series)
    for signal, first, second, combine, sign in _COMPUTED:
        if not any(each.signal is signal for each in found):
            found += _combined(found, signal, first, second, combine, sign)
    return found[len(series) :]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _share_left(free: float, whole: float) -> float | None:
    return (whole - free) / whole if whole > 0 else None


_COMPUTED: tuple[tuple[Signal, Signal, Signal, _Combine, str], ...] = (
    (Signal.KV_CAPACITY, Signal.KV_BLOCKS, Signal.KV_BLOCK_SIZE, lambda a, b: a * b, "x"),
    (Signal.KV_USAGE, Signal.KV_BLOCKS_HELD, Signal.KV_BLOCKS, _share, "/"),
    (Signal.KV_USAGE, Signal.KV_BLOCKS_FREE, Signal.KV_BLOCKS, _share_left, "free of"),
    (Signal.KV_USAGE, Signal.CONTEXT_TOKENS, Signal.KV_CAPACITY, _share, "/"),
)
"""In this order; a later one is taken where an earlier one could not be computed."""


def _combined(
    found: Sequence[Series], signal: Signal, first: Signal, second: Signal, combine: _Combine,
    sign: str,
) -> list[Series]:  # fmt: skip
    made = []
    for one in [each for each in found if each.signal is first]:
        other = next(
            (each for each in found if each.signal is second and each.labels == one.labels), None
        )
        if other is None:
            continue
        readings = []
        for reading in one.readings:
            beside = other.at(reading.at)
            value = None if beside is None else combine(reading.value, beside.value)
            if value is not None:
                readings.append(Reading(reading.at, value, plain_number(value)))
        if readings:
            name = (
                one.origin.name
                if one.origin.name == other.origin.name
                else f"{one.origin.name} {sign} {other.origin.name}"
            )
            origin = Origin(kind=one.origin.kind, name=name, place=one.origin.place)
            made.append(
                Series(signal=signal, origin=origin, readings=tuple(readings), labels=one.labels)
            )
    return made

"""Figures that do not fit each other: of the engine and of who asks it, of replicas, of a page."""

from collections.abc import Iterator

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.spread import spread_of
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables import TABLES

_MISSING = 1.5
"""Times what the engine has: more in flight than it knows of."""
_SAME_MOMENT = 20.0


def truth(now: Activity) -> Iterator[str]:
    """What the engine says is not what is in flight."""
    inside, running = now.in_flight, now.running
    if inside is None or running is None:
        return
    here = running.last.value + (0.0 if now.waiting is None else now.waiting.last.value)
    near = abs(inside.last.at - running.last.at) <= _SAME_MOMENT
    if near and inside.last.value == 0 and here > 0:
        yield f"{inside.origin.name} {inside.last.raw}, and the engine has {here:g}"
    if near and inside.last.value > _MISSING * here + 4:
        yield f"{inside.origin.name} {inside.last.raw}, and the engine has {here:g}"


def uneven(now: Activity) -> Iterator[str]:
    """One replica has several times what another has."""
    load = spread_of(now.window, Signal.RUNNING)
    if load is None or load.total < 4 * len(load.by_place):
        return
    if load.top_share >= 1.9 / len(load.by_place) and load.least <= 0.25 * load.mean:
        yield load.says


def doubts(now: Activity) -> Iterator[str]:
    """Series that the reader of a page did not believe; not an average that two readers share,
    beside counters that tell the same."""
    kinds = (DoubtKind.STUCK, DoubtKind.COUNTER_RESET, DoubtKind.MISSING, DoubtKind.OUT_OF_RANGE)
    for doubt in now.window.doubts_of(*kinds):
        if doubt.name not in _AVERAGES:
            yield f"{doubt.name}: {doubt.what}"


_AVERAGES = frozenset(
    alias.exported for table in TABLES for alias in table.aliases if alias.averages is not None
)

"""What goes wrong in a random fleet: faults of every kind, each as strong, as long, and with as
much or as little of the fleet as was drawn, alone and in pairs.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dataplane.simulation.cold_start import StartStage
from dataplane.simulation.faults.calls import CallFault
from dataplane.simulation.faults.clients import RetryStorm, SlowClients
from dataplane.simulation.faults.fault import Fault, ReplicaFault
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.faults.metrics import (
    Lie,
    LyingMetrics,
    MetricsFault,
    MissingSeries,
    RenamedSeries,
    StaleMetrics,
)
from dataplane.simulation.faults.placement import (
    DraftDisagreement,
    StickyRouting,
    TransferLimit,
    WrongPhaseSplit,
)
from dataplane.simulation.faults.process import HungReplica, SlowStart, StalledReplica
from dataplane.simulation.faults.traffic import (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    TenantFlood,
)
from dataplane.simulation.phase_split import Phase

KINDS: tuple[type[Fault], ...] = (
    SmallerMemory,
    WorkspaceSpike,
    CancelLeak,
    StalledReplica,
    HungReplica,
    SlowStart,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    ClusteredArrivals,
    TenantFlood,
    RetryStorm,
    SlowClients,
    StickyRouting,
    DraftDisagreement,
    TransferLimit,
    WrongPhaseSplit,
    StaleMetrics,
    MissingSeries,
    RenamedSeries,
    LyingMetrics,
)
NEED_PHASES = frozenset({WrongPhaseSplit})
NEED_SPECULATION = frozenset({DraftDisagreement})
NEED_LINK = frozenset({TransferLimit})
"""Of the weights of a start, or between phases."""

_Draw = Callable[[random.Random], object]


def kinds_of(number: int) -> tuple[type[Fault], ...]:
    """Of the faults of scenario `number`: as many scenarios begin with each kind, and as many with
    none; half of the others have a second one, of any kind."""
    draw = random.Random(f"kinds of {number}")
    first = number % (len(KINDS) + 1)
    if first == len(KINDS):
        return ()
    return (KINDS[first], draw.choice(KINDS)) if draw.random() < 0.5 else (KINDS[first],)


def random_faults(
    number: int,
    *,
    until: float,
    replicas: Sequence[str],
    tenants: Sequence[str],
    classes: Sequence[str],
) -> tuple[Fault, ...]:
    """The faults of scenario `number`, which begin before `until`."""
    draw = random.Random(f"faults of {number}")
    faults = []
    for kind in kinds_of(number):
        own = {name: of(draw) for name, of in _OWN.get(kind, {}).items()}
        if issubclass(kind, ReplicaFault):
            own["replica"] = draw.choice((None, draw.choice(replicas)))
        if issubclass(kind, CallFault):
            own["tenants"] = draw.choice(((), (), (draw.choice(tenants),)))
            own["classes"] = draw.choice(((), (), (draw.choice(classes),)))
            own["share"] = draw.choice((1.0, draw.random()))
        if issubclass(kind, MetricsFault):
            own["series"] = draw.choice((("*",), ("*_total", "*usage*"), ("*seconds*",)))
        faults.append(_fault(kind, draw, until, own))
    return tuple(faults)


def _fault(kind: type[Fault], draw: random.Random, until: float, own: Mapping[str, Any]) -> Fault:
    return kind(
        at=draw.choice((0.0, draw.uniform(0, until), draw.uniform(0, until))),
        duration=draw.choice((None, draw.uniform(0, 2), draw.uniform(0, until))),
        intensity=_intensity(kind, draw),
        seed=draw.randrange(2**31),
        **own,
    )


def _intensity(kind: type[Fault], draw: random.Random) -> float:
    """Of a share, any of it and all of it; of a multiple, what a short run can bear."""
    most = _MOST.get(kind, 1.0)
    return draw.choice((most, draw.uniform(0, most), draw.uniform(0, most)))


_MOST: dict[type[Fault], float] = {
    WorkspaceSpike: 1.2,
    StalledReplica: 6.0,
    SlowStart: 6.0,
    LongerOutputs: 3.0,
    LongPrompts: 1.5,
    TenantFlood: 3.0,
    TransferLimit: 8.0,
    LyingMetrics: 3.0,
}


def _any_of(*values: object) -> _Draw:
    return lambda draw: draw.choice(values)


def _between(least: float, most: float) -> _Draw:
    return lambda draw: draw.uniform(least, most)


_OWN: dict[type[Fault], dict[str, _Draw]] = {
    SlowStart: {"stage": _any_of(*[stage for stage in StartStage if stage != StartStage.READY])},
    LongPrompts: {"added_tokens": _any_of(0, 1, 30, 200)},
    ClusteredArrivals: {"period": _between(0.5, 15)},
    RetryStorm: {
        "patience": _any_of(None, 0.2, 2.0),
        "max_retries": _any_of(0, 1, 5),
        "backoff": _any_of(0.0, 0.1),
    },
    SlowClients: {
        "tokens_per_second": _between(1, 60),
        "stops_after": _any_of(None, 0, 3),
        "buffered_tokens": _any_of(0, 2, 64),
    },
    WrongPhaseSplit: {"short": _any_of(None, *Phase)},
    RenamedSeries: {
        "old": _any_of("", "", "num_requests", "_total"),
        "new": _any_of("", "requests"),
    },
    LyingMetrics: {"how": _any_of(*Lie)},
}
"""What else a kind is told, by name."""

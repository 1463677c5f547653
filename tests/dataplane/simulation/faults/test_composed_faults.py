"""Any faults at once: nothing is lost, nothing is counted twice, and the run repeats itself."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.faults.clients import RetryStorm, SlowClients
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.faults.metrics import Lie, LyingMetrics, MissingSeries, StaleMetrics
from dataplane.simulation.faults.placement import StickyRouting, TransferLimit, WrongPhaseSplit
from dataplane.simulation.faults.process import HungReplica, SlowStart, StalledReplica
from dataplane.simulation.faults.traffic import (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    TenantFlood,
)
from dataplane.simulation.observer.lines import to_json
from dataplane.simulation.phase_split import Phase, PhaseSplit
from dataplane.simulation.phased_replicas import PhasePlan
from tests.dataplane.simulation.faulty_fleet import IDS, FaultyFleet

OF_CALLS: tuple[Callable[..., Fault], ...] = (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    RetryStorm,
    SlowClients,
    TenantFlood,
)
OF_REPLICAS: tuple[Callable[..., Fault], ...] = (
    CancelLeak,
    HungReplica,
    MissingSeries,
    SlowStart,
    SmallerMemory,
    StaleMetrics,
    StalledReplica,
    StickyRouting,
    WorkspaceSpike,
)


def random_faults(number: int) -> list[Fault]:
    draw = random.Random(number)
    faults: list[Fault] = []
    for _ in range(draw.randint(2, 7)):
        common: dict[str, Any] = {
            "at": draw.uniform(0, 20),
            "duration": draw.choice([None, draw.uniform(0.1, 15)]),
            "intensity": draw.choice([0.2, 0.6, 0.9, 1.0, 2.0]),
        }
        seed = draw.randrange(1000)
        if draw.random() < 0.5:
            kind = draw.choice(OF_CALLS)
            faults.append(kind(**common, seed=seed, tenants=draw.choice([(), ("acme",)])))
        elif draw.random() < 0.1:
            faults.append(LyingMetrics(**common, seed=seed, how=draw.choice(list(Lie))))
        else:
            of = draw.choice(OF_REPLICAS)
            faults.append(of(**common, seed=seed, replica=draw.choice([None, *IDS])))
    return faults


def phase_faults(number: int) -> list[Fault]:
    draw = random.Random(f"phases {number}")
    at, duration = draw.uniform(0, 15), draw.choice([None, draw.uniform(0.1, 10)])
    return [
        WrongPhaseSplit(at=at, duration=duration, intensity=0.5, short=draw.choice(list(Phase))),
        TransferLimit(at=draw.uniform(0, 20), duration=duration, intensity=draw.uniform(1, 20)),
    ]


def phases_of(number: int) -> PhasePlan:
    return PhasePlan(
        split=PhaseSplit(prefill=1 + number % 2, decode=2 - number % 2),
        bits_per_second=8.0 * 10**9,
        bytes_per_token=10.0**6,
    )


def run(number: int, phases: PhasePlan | None = None) -> FaultyFleet:
    client = ClientBehaviour(first_token_within=5.0, answer_within=12.0)
    faults = random_faults(number) + ([] if phases is None else phase_faults(number))
    fleet = FaultyFleet(*faults, duration=25, client=client, phases=phases)
    fleet.fleet.every(1.0, fleet.fleet.check_integrity)
    return fleet.run(drain=10)


@pytest.mark.parametrize("number", range(16))
def test_invariants_hold_in_every_second_whatever_goes_wrong(number: int) -> None:
    counts = run(number).fleet.gateways[0].counts()
    assert counts.arrived > 50
    assert counts.finished > 0


@pytest.mark.parametrize("number", range(12))
def test_invariants_hold_in_two_phases_whatever_goes_wrong(number: int) -> None:
    assert run(number, phases_of(number)).fleet.gateways[0].counts().finished > 0


@pytest.mark.parametrize(("number", "is_phased"), [(3, False), (8, False), (8, True)])
def test_the_same_faults_give_the_same_run(number: int, is_phased: bool) -> None:
    phases = phases_of(number) if is_phased else None
    one, other = run(number, phases), run(number, phases)
    assert list(map(to_json, one.seen)) == list(map(to_json, other.seen))
    assert one.fleet.gateways[0].counts() == other.fleet.gateways[0].counts()

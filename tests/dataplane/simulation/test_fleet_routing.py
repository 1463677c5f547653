"""Routing in simulated fleets: the same objects as in a gateway, in virtual time."""

import dataclasses
from collections import Counter
from typing import Any

import pytest

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, RoutingTerms
from dataplane.record import RequestRecord
from dataplane.routing.terms import create_builtin
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.arrivals import Poisson
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import StreamedRecords
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.traffic import SharedPrefixes, TrafficSpec

COST = LinearCost(iteration=0.008, per_prompt_token=1e-4, per_decode_step=2e-4)
NUM_REPLICAS = 4


def scenario(
    policy: str = "two_choices",
    *,
    rate: float = 12.0,
    duration: float = 60.0,
    affinity_header: str | None = None,
    settings: dict[str, Any] | None = None,
    is_prefix_caching: bool = True,
    num_gateways: int = 1,
    seed: int = 7,
) -> FleetScenario:
    """Prompts of 2,000 tokens, of which 1,920 are one of 24 beginnings. A replica keeps eight."""
    bounds = SchedulerConfig(
        max_num_seqs=16,
        max_num_batched_tokens=2048,
        max_model_len=4096,
        num_blocks=1024,
        block_size=16,
        is_prefix_caching=is_prefix_caching,
    )
    callers = [
        (Caller(tenant="acme", client=PATIENT, headers={"x-session": f"s-{number}"}), 1.0)
        for number in range(6)
    ]
    routing = RoutingTerms(policy=policy, settings=settings or {}, affinity_header=affinity_header)
    return FleetScenario(
        name="routed",
        seed=seed,
        duration=duration,
        num_gateways=num_gateways,
        replicas=tuple(
            ReplicaSpec(replica_id=name, scheduler=bounds, cost=COST)
            for name in name_replicas(NUM_REPLICAS)
        ),
        policy=AdmissionPolicyTerms(
            revision="routed@1", classes=(ClassPolicy(name="all"),), routing=routing
        ),
        traffic=(
            TrafficSpec(
                name="all",
                process=Poisson(rate),
                callers=callers,
                prompt=Constant(2000),
                output=Constant(30),
                prefixes=SharedPrefixes(num_prefixes=24, length=Constant(1920)),
            ),
        ),
    )


def run(served: FleetScenario) -> tuple[Fleet, list[RequestRecord]]:
    records: list[RequestRecord] = []
    fleet = Fleet(served, StreamedRecords(records.append))
    fleet.run()
    fleet.check_integrity()
    return fleet, records


def checksum(fleet: Fleet) -> str:
    assert fleet.results.columns is not None
    return fleet.results.columns.checksum()


def ttft(fleet: Fleet, quantile: float) -> float:
    found = fleet.results.quantiles(fleet.results.of_class("all"), [quantile])["ttft"][0]
    assert found is not None
    return found


def test_where_beginnings_are_shared_prefix_routing_computes_less_and_answers_sooner() -> None:
    drawn, of_drawn = run(scenario("two_choices"))
    warm, of_warm = run(scenario("prefix"))
    assert num_cached(of_warm) > 1.5 * num_cached(of_drawn)
    assert ttft(warm, 0.5) < 0.7 * ttft(drawn, 0.5)
    assert ttft(warm, 0.99) < ttft(drawn, 0.99)


def num_cached(records: list[RequestRecord]) -> int:
    return sum(record.num_cached_tokens or 0 for record in records)


def test_one_hot_beginning_does_not_pile_up_on_the_replica_that_has_it() -> None:
    hot = scenario("prefix", rate=60.0, duration=20.0)
    [traffic] = hot.traffic
    prefixes = SharedPrefixes(num_prefixes=1, length=Constant(1920))
    hot = dataclasses.replace(hot, traffic=(dataclasses.replace(traffic, prefixes=prefixes),))
    _, records = run(hot)
    counts = Counter(record.replica_ids[0] for record in records)
    assert len(counts) == NUM_REPLICAS
    assert min(counts.values()) > 0.15 * len(records)
    assert any("waiting there costs more" in record.routing[0].reason for record in records)


@pytest.mark.parametrize("policy", ["two_choices", "least_outstanding", "prefix"])
def test_the_same_seed_gives_the_same_results_recorded_or_not(policy: str) -> None:
    served = scenario(policy, duration=15.0, num_gateways=2)
    plain = Fleet(served)
    plain.run()
    recorded, _ = run(served)
    assert checksum(recorded) == checksum(plain)
    if policy == "two_choices":
        other, _ = run(dataclasses.replace(served, seed=8))
        assert checksum(other) != checksum(plain)


def test_records_say_why_each_request_went_where_it_went() -> None:
    _, records = run(scenario("prefix", duration=10.0))
    for record in records:
        [decision] = record.routing
        assert (decision.chosen,) == record.replica_ids
        assert (decision.policy, decision.attempt, decision.snapshot_version) == ("prefix", 0, 1)
        assert decision.num_candidates == NUM_REPLICAS


def test_sessions_stay_with_their_replica_while_it_serves() -> None:
    _, records = run(scenario("two_choices", duration=20.0, affinity_header="x-session", rate=4.0))
    counts = Counter(record.replica_ids[0] for record in records)
    by_session = Counter(record.routing[0].policy for record in records)
    assert by_session == {"session_affinity": len(records)}
    assert len(counts) < 6, "six sessions have at most six homes"


def test_a_replica_that_hangs_is_ejected_and_comes_back_slowly() -> None:
    served = scenario("two_choices", duration=120.0, is_prefix_caching=False, rate=8.0)
    records: list[RequestRecord] = []
    fleet = Fleet(served, StreamedRecords(records.append))
    hung = fleet.replicas["replica-2"]
    fleet.timeline.at(20.0, hung.stall)
    fleet.timeline.at(40.0, hung.resume)
    router = fleet.gateways[0].queue.router
    ejected: list[float] = []

    def look() -> None:
        if router.ejections.why_out("replica-2") is not None:
            ejected.append(fleet.timeline.now)

    fleet.every(1.0, look)
    fleet.run()
    assert 30.0 <= ejected[0] <= 33.0, "ten seconds without a first token"
    assert ejected[-1] >= 39.0
    back_at = ejected[-1] + 1.0
    assert share_of("replica-2", records, ejected[0], ejected[-1]) == 0.0
    early = share_of("replica-2", records, back_at, back_at + 10.0)
    late = share_of("replica-2", records, back_at + 40.0, 120.0)
    assert 0.0 < early < 0.5 * late
    assert late == pytest.approx(1 / NUM_REPLICAS, abs=0.08)


def share_of(replica_id: str, records: list[RequestRecord], begin: float, end: float) -> float:
    """Of those that arrived meanwhile."""
    origin = scenario().starts_at_unix_ns
    during = [r for r in records if begin <= (r.arrived_at_unix_ns - origin) / 1e9 < end]
    return sum(record.replica_ids[0] == replica_id for record in during) / len(during)


def test_a_scenario_that_names_no_policy_anybody_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="no plugin makes the routing policy 'nearest'"):
        Fleet(scenario("nearest"), create_policy=create_builtin)


def test_prompts_are_hashed_only_where_some_replica_finds_them_again() -> None:
    fleet = Fleet(scenario("prefix", duration=5.0, is_prefix_caching=False))
    calls: list[Call] = []
    fleet.change_call.append(lambda now, call: calls.append(call) or call)  # type: ignore[func-returns-value]
    fleet.run()
    assert calls
    assert fleet.gateways[0].queue.router.index.num_blocks == 0

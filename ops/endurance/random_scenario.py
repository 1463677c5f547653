"""A random fleet: small replicas with few blocks, so that they preempt and refuse.

Some fleets compute prompts on other replicas than they decode on; replicas of some draft tokens,
or load their weights over a link that they share; the gateways of some take their time; and some
calls ask for several answers; of half of them the policy asks for more (see `random_policy`).
"""

import random
from collections.abc import Collection
from dataclasses import replace

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.latency import Boundary
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, ContractPolicy, TenantPolicy
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.distributions import Distribution, MedianAndTail, Uniform
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.gateway_overheads import OverheadPlan
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.phased_replicas import PhasePlan
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from dataplane.simulation.weights import SharedLink, WeightsOverLink
from ops.endurance.random_faults import NEED_LINK, NEED_PHASES, NEED_SPECULATION
from ops.endurance.random_policy import with_random_terms
from ops.endurance.random_traffic import random_traffic

DURATION = 20.0
BOUNDS = GatewayBounds(unserved_seconds=2.0, release_seconds=4.0, write_seconds=3.0)
CLASSES = ("gold", "rest")


def random_scenario(number: int, kinds: Collection[type[Fault]] = ()) -> FleetScenario:
    """Scenario `number`: always the same, with what faults of these kinds are about."""
    draw = random.Random(number)
    scheduler = _random_scheduler(draw)
    cost: CostModel = LinearCost(
        iteration=draw.uniform(0.001, 0.08),
        per_prompt_token=draw.uniform(0, 0.002),
        per_decode_step=draw.uniform(0, 0.004),
    )
    cold_start = ColdStart(load=draw.uniform(0, 3), warm_up=draw.uniform(0, 1))
    num_replicas = draw.randint(1, 4)
    if NEED_PHASES.intersection(kinds):
        num_replicas = max(2, num_replicas)
    replica_ids = name_replicas(num_replicas)
    scenario = FleetScenario(
        name=f"random-{number}",
        seed=number,
        duration=DURATION,
        replicas=tuple(
            ReplicaSpec(
                replica_id=name,
                scheduler=scheduler,
                cost=cost,
                cold_start=cold_start,
                starts_at=draw.uniform(0, 6) if draw.random() < 0.25 else None,
            )
            for name in replica_ids
        ),
        phases=_random_phases(number, num_replicas, bool(NEED_PHASES.intersection(kinds))),
        policy=with_random_terms(number, _random_policy(draw)),
        contract=draw.choice((None, _contract(Boundary.SERVER), _contract(Boundary.ENGINE))),
        tenants=(TenantPolicy(name="one", tier="gold"), TenantPolicy(name="two")),
        traffic=tuple(random_traffic(draw, name) for name in "abc"[: draw.randint(1, 3)]),
        num_gateways=draw.randint(1, 3),
        bounds=BOUNDS,
        overheads=_random_overheads(number),
        max_drain_seconds=3600.0,
    )
    scenario = _with_several_answers(scenario, number)
    scenario = _with_drafts(scenario, number, bool(NEED_SPECULATION.intersection(kinds)))
    return _with_weights(scenario, number, bool(NEED_LINK.intersection(kinds)))


def _random_scheduler(draw: random.Random) -> SchedulerConfig:
    block_size = draw.choice((1, 2, 8, 16))
    max_num_seqs = draw.randint(1, 8)
    return SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_seqs + draw.randint(0, 60),
        max_model_len=draw.randint(60, 400),
        num_blocks=draw.randint(20, 300) // block_size + 2,
        block_size=block_size,
        max_prefill_tokens_per_step=draw.choice((None, 1, 7, 40)),
        is_prefix_caching=draw.random() < 0.6,
    )


def _random_policy(draw: random.Random) -> AdmissionPolicyTerms:
    return AdmissionPolicyTerms(
        revision="random@1",
        classes=(
            ClassPolicy(
                name="gold",
                match='tenant.tier == "gold"',
                priority=10,
                max_queue=draw.randint(0, 40),
                deadline_seconds=draw.choice((None, 0.3, 3.0)),
            ),
            ClassPolicy(
                name="rest",
                match=draw.choice((None, "request.stream")),
                max_queue=draw.randint(0, 40),
                deadline_seconds=draw.choice((None, 1.0, 8.0)),
            ),
        ),
        max_active_per_replica=draw.choice((None, None, 1, 4)),
    )


def _contract(boundary: Boundary) -> ContractPolicy:
    terms = ContractTerms(
        boundary=boundary,
        objectives=(
            Objective(signal=ObjectiveSignal.TTFT, target=0.9, at_most_seconds=0.5),
            Objective(signal=ObjectiveSignal.TPOT, target=0.9, at_most_seconds=0.05),
            Objective(signal=ObjectiveSignal.E2E, target=0.9, at_most_seconds=4.0),
            Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.99),
        ),
    )
    return ContractPolicy(revision="random@1", terms_by_class=dict.fromkeys(CLASSES, terms))


def _random_overheads(number: int) -> OverheadPlan | None:
    """Of every third fleet; some so long that clients leave and replicas die meanwhile."""
    draw = random.Random(f"overheads of {number}")
    if draw.random() < 0.67:
        return None

    def spread() -> Distribution:
        median = draw.choice((0.0, 0.002, 0.02, 0.4))
        return MedianAndTail(median=median, p95=median * draw.uniform(1, 4))

    return OverheadPlan(
        before_admission=spread(),
        before_submission=spread(),
        before_first_write=spread(),
        before_last_write=spread(),
    )


def _random_phases(number: int, num_replicas: int, is_needed: bool) -> PhasePlan | None:
    """Of every other fleet that has two replicas; a prompt takes up to seconds on its link."""
    draw = random.Random(f"phases of {number}")
    if num_replicas < 2 or (draw.random() < 0.5 and not is_needed):
        return None
    prefill = draw.randint(1, num_replicas - 1)
    return PhasePlan(
        split=PhaseSplit(prefill=prefill, decode=num_replicas - prefill),
        bits_per_second=8.0,
        bytes_per_token=draw.choice((0.0001, 0.001, 0.01, 0.05)),
    )


def _with_several_answers(scenario: FleetScenario, number: int) -> FleetScenario:
    """Of every third fleet calls ask for up to four answers each."""
    draw = random.Random(f"answers of {number}")
    if draw.random() < 2 / 3:
        return scenario
    asked = Uniform(1, 4)
    traffic = tuple(replace(spec, num_sequences=asked) for spec in scenario.traffic)
    return replace(scenario, traffic=traffic)


def _with_drafts(scenario: FleetScenario, number: int, is_needed: bool) -> FleetScenario:
    """Every fourth fleet speculates. Its costs count, and are made anew for each run."""
    draw = random.Random(f"drafts of {number}")
    of_round = SpeculativeRound(draft_steps=draw.randint(1, 6), draft_cost=draw.uniform(0, 0.3))
    acceptance = draw.choice((0.0, 1.0, draw.random()))
    if draw.random() < 0.75 and not is_needed:
        return scenario
    return replace(
        scenario,
        replicas=tuple(
            replace(spec, cost=SpeculativeCost(spec.cost, of_round, acceptance))
            for spec in scenario.replicas
        ),
    )


def _with_weights(scenario: FleetScenario, number: int, is_needed: bool) -> FleetScenario:
    """Weights of every fourth fleet come over a link, which takes up to 3 s for one replica."""
    draw = random.Random(f"weights of {number}")
    seconds = draw.uniform(0, 3)
    if draw.random() < 0.75 and not is_needed:
        return scenario
    start = WeightsOverLink(
        acquire=draw.uniform(0, 0.5),
        compile=draw.uniform(0, 0.5),
        link=SharedLink(8.0),
        num_bytes=seconds,
    )
    return replace(
        scenario, replicas=tuple(replace(spec, cold_start=start) for spec in scenario.replicas)
    )

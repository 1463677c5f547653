"""A thousand random fleets, and the invariants of a request in every simulated second of each.

    python -m ops.endurance.random_fleet --scenarios 1000

Small replicas with few blocks, so that they preempt and refuse; clients that leave, read slowly,
stop reading and come again; replicas that start, stall, drain, die and are started again. Some
fleets compute prompts on other replicas than they decode on, and phases and link change; the
gateways of some take their time. Every second of virtual time it is checked that

1. a request has one disposition, and keeps it;
2. blocks, tables and the prefix cache agree, and no slot is lost or given twice;
3. what has finished is released within the gateway's bound;
4. what is cached after a token was selected is everything but that token;
5. arrived = invalid + undecided + rejected + admitted, admitted = active + finished, in every
   gateway;
6. nothing that was written after a disconnect counts as delivered.

A scenario is its number: `--first 17 --scenarios 1` runs number 17 again.
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, EventKind, State
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, ContractPolicy, TenantPolicy
from dataplane.record import RequestRecord
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.sequence import SequenceStatus
from dataplane.simulation.arrivals import ArrivalProcess, Bursts, Poisson, Regular
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour, Reading, Retries
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import (
    Constant,
    Distribution,
    Empirical,
    Exponential,
    LogNormal,
    MedianAndTail,
    Uniform,
)
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import AllRecords
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.gateway_overheads import OverheadPlan
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.phased_replicas import PhasedReplicas, PhasePlan
from dataplane.simulation.traffic import SharedPrefixes, TrafficSpec, Turns

_DURATION = 20.0
_BOUNDS = GatewayBounds(unserved_seconds=2.0, release_seconds=4.0, write_seconds=3.0)


def random_scenario(number: int) -> FleetScenario:
    """Scenario `number`: always the same."""
    draw = random.Random(number)
    block_size = draw.choice((1, 2, 8, 16))
    max_num_seqs = draw.randint(1, 8)
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_seqs + draw.randint(0, 60),
        max_model_len=draw.randint(60, 400),
        num_blocks=draw.randint(20, 300) // block_size + 2,
        block_size=block_size,
        max_prefill_tokens_per_step=draw.choice((None, 1, 7, 40)),
        is_prefix_caching=draw.random() < 0.6,
    )
    cost = LinearCost(
        iteration=draw.uniform(0.001, 0.08),
        per_prompt_token=draw.uniform(0, 0.002),
        per_decode_step=draw.uniform(0, 0.004),
    )
    cold_start = ColdStart(load=draw.uniform(0, 3), warm_up=draw.uniform(0, 1))
    replica_ids = name_replicas(draw.randint(1, 4))
    scenario = FleetScenario(
        name=f"random-{number}",
        seed=number,
        duration=_DURATION,
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
        phases=_random_phases(number, len(replica_ids)),
        policy=AdmissionPolicyTerms(
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
        ),
        contract=draw.choice((None, _contract(Boundary.SERVER), _contract(Boundary.ENGINE))),
        tenants=(TenantPolicy(name="one", tier="gold"), TenantPolicy(name="two")),
        traffic=tuple(_random_traffic(draw, name) for name in "abc"[: draw.randint(1, 3)]),
        num_gateways=draw.randint(1, 3),
        bounds=_BOUNDS,
        overheads=_random_overheads(number),
    )
    return _with_several_answers(scenario, number)


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


def _with_several_answers(scenario: FleetScenario, number: int) -> FleetScenario:
    """Of every third fleet without phases, calls ask for up to four answers each."""
    draw = random.Random(f"answers of {number}")
    if scenario.phases is not None or draw.random() < 2 / 3:
        return scenario
    asked = Uniform(1, 4)
    traffic = tuple(replace(spec, num_sequences=asked) for spec in scenario.traffic)
    return replace(scenario, traffic=traffic)


def _random_phases(number: int, num_replicas: int) -> PhasePlan | None:
    """Of every other fleet that has two replicas; a prompt takes up to seconds on its link."""
    draw = random.Random(f"phases of {number}")
    if num_replicas < 2 or draw.random() < 0.5:
        return None
    prefill = draw.randint(1, num_replicas - 1)
    return PhasePlan(
        split=PhaseSplit(prefill=prefill, decode=num_replicas - prefill),
        bits_per_second=8.0,
        bytes_per_token=draw.choice((0.0001, 0.001, 0.01, 0.05)),
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
    return ContractPolicy(revision="random@1", terms_by_class={"gold": terms, "rest": terms})


def _random_traffic(draw: random.Random, name: str) -> TrafficSpec:
    processes: tuple[ArrivalProcess, ...] = (
        Poisson(draw.uniform(0.5, 8)),
        Bursts(rate=draw.uniform(0.1, 0.5), mean_size=draw.uniform(1, 15), within=0.5),
        Regular(draw.uniform(0.2, 2)),
    )
    prompts: tuple[Distribution, ...] = (
        Constant(draw.randint(1, 60)),
        LogNormal(median=30, sigma=1.0),
        Empirical([1, 5, 50, 300]),
    )
    return TrafficSpec(
        name=name,
        process=draw.choice(processes),
        callers=[
            (
                Caller(
                    tenant=tenant,
                    client=_random_client(draw),
                    headers={},
                    is_stream=draw.random() < 0.8,
                ),
                draw.uniform(0.1, 1),
            )
            for tenant in ("one", "two", "unknown")
        ],
        prompt=draw.choice(prompts),
        output=draw.choice((Constant(1), LogNormal(median=12, sigma=1.0), Uniform(1, 80))),
        max_tokens=draw.choice((None, Constant(20), Uniform(1, 60))),
        prefixes=draw.choice((None, SharedPrefixes(num_prefixes=3, length=Uniform(1, 60)))),
        turns=draw.choice(
            (
                None,
                Turns(num_turns=Uniform(1, 4), wait=Exponential(0.5), added=Uniform(1, 10)),
            )
        ),
    )


def _random_client(draw: random.Random) -> ClientBehaviour:
    if draw.random() < 0.3:
        return PATIENT
    return ClientBehaviour(
        name="random",
        first_token_within=draw.choice((None, 0.05, 1.0)),
        answer_within=draw.choice((None, 0.5, 5.0)),
        reading=draw.choice(
            (
                None,
                Reading(tokens_per_second=20, buffered_tokens=4),
                Reading(tokens_per_second=10, stops_after=5, buffered_tokens=3),
            )
        ),
        retries=draw.choice(
            (
                None,
                Retries(max_retries=3, backoff=0),
                Retries(max_retries=2, backoff=0.5, jitter=0.5, when_impatient=True),
                Retries(max_retries=1, backoff=0.1, heeds_retry_after=True),
            )
        ),
    )


def strike(fleet: Fleet, number: int) -> None:
    """Put on the timeline what happens to the replicas of scenario `number`."""
    draw = random.Random(f"strikes of {number}")
    for replica in fleet.replicas.values():
        at = 0.0
        while (at := at + draw.expovariate(0.12)) < _DURATION:
            blow: Callable[[], object] = draw.choice(
                (
                    lambda replica=replica: replica.kill("it was killed"),
                    replica.stall,
                    replica.drain,
                )
            )
            fleet.timeline.at(at, blow)
            fleet.timeline.at(at + draw.uniform(0, 5), replica.resume)
            fleet.timeline.at(at + draw.uniform(0, 5), replica.start)
        # Whatever was done to it, it ends well: nothing hangs for ever.
        fleet.timeline.at(_DURATION + 5, replica.resume)
        fleet.timeline.at(_DURATION + 5, replica.start)
    if fleet.phases is not None:
        _strike_phases(fleet, fleet.phases, draw)


def _strike_phases(fleet: Fleet, phases: PhasedReplicas, draw: random.Random) -> None:
    """Its link narrows, and replicas change their phase."""
    num_replicas = len(fleet.replicas)
    for at in (draw.uniform(0, _DURATION), draw.uniform(0, _DURATION)):
        bandwidth = phases.plan.bits_per_second / draw.uniform(1, 6)
        fleet.timeline.at(at, partial(phases.link.set_bandwidth, bandwidth))
        prefill = draw.randint(1, num_replicas - 1)
        split = PhaseSplit(prefill=prefill, decode=num_replicas - prefill)
        fleet.timeline.at(at + draw.uniform(0, 5), partial(fleet.set_split, split))
    plain = partial(phases.link.set_bandwidth, phases.plan.bits_per_second)
    fleet.timeline.at(_DURATION + 5, plain)


@dataclass(slots=True)
class Watch:
    """Checks a fleet each second, and what is left at its end."""

    fleet: Fleet
    records: AllRecords | None
    num_checks: int = 0
    _dispositions: dict[int, Disposition] = field(default_factory=dict)

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        self.num_checks += 1
        self.fleet.check_integrity()
        for gateway in self.fleet.gateways:
            for request in gateway.live():
                self._check_request(request)
        for replica in self.fleet.replicas.values():
            for request in replica.requests():
                _check_cache(request)
        if self.records is not None:
            for record in self.records.take():
                check_record(record)

    def check_end(self) -> None:
        """Nothing is left, anywhere."""
        self.check()
        for gateway in self.fleet.gateways:
            counts = gateway.counts()
            assert counts.active == 0, counts
            assert gateway.num_live == 0
        phases = self.fleet.phases
        queues = [gateway.queue for gateway in self.fleet.gateways]
        queues += [] if phases is None else phases.queues
        for queue in queues:
            assert queue.num_waiting == 0
            for replica_id in self.fleet.replicas:
                assert queue.num_outstanding(replica_id) == 0, replica_id
        for replica in self.fleet.replicas.values():
            assert replica.num_requests == 0, replica.replica_id
            if replica.engine is not None:
                assert replica.engine.scheduler.pool.num_referenced == 0, replica.replica_id
        arrived = sum(gateway.counts().arrived for gateway in self.fleet.gateways)
        assert self.fleet.results.num_ended == arrived

    def _check_request(self, request: FleetRequest) -> None:
        is_terminal = request.state in (State.FINISHED, State.INVALID, State.REJECTED)
        assert (request.disposition is not None) == is_terminal, request.state
        if request.disposition is not None:
            first = self._dispositions.setdefault(request.number, request.disposition)
            assert first is request.disposition, f"{first} became {request.disposition}"
        if request.state is State.FINISHED and not request.is_released:
            assert request.finished_at is not None
            age = self.fleet.timeline.now - request.finished_at
            assert age <= _BOUNDS.release_seconds, f"finished {age} s ago, and not released"
        if request.has_left:
            assert request.delivery is not Delivery.COMPLETE


def _check_cache(request: FleetRequest) -> None:
    sequence = request.sequence
    assert sequence is not None
    if sequence.status is not SequenceStatus.RUNNING or not sequence.num_output_tokens:
        return
    is_catching_up = sequence.num_preemptions > 0
    assert is_catching_up or sequence.num_computed_tokens == sequence.num_tokens - 1, sequence


def check_record(record: RequestRecord) -> None:
    """What was written, and when, fits how the record says it was delivered."""
    writes = [e for e in record.events if e.kind in (EventKind.FIRST_WRITE, EventKind.WRITE)]
    [last] = [e for e in record.events if e.kind is EventKind.LAST_WRITE]
    assert all(write.at <= last.at for write in writes)
    num_written = sum(write.num_tokens or 0 for write in writes)
    assert num_written <= (record.num_output_tokens or 0)
    if record.delivery is Delivery.COMPLETE:
        assert num_written == record.num_output_tokens
        assert record.disposition in (Disposition.STOP, Disposition.LENGTH)
    assert (record.delivery is Delivery.NONE) == (not writes)
    times = [e.at for e in record.events if e.kind not in (EventKind.WRITE,)]
    assert times == sorted(times), "nothing is told out of order"


def run(number: int, is_recorded: bool) -> Watch:
    """One scenario to its end. Raises AssertionError and FleetError."""
    records = AllRecords() if is_recorded else None
    fleet = Fleet(random_scenario(number), records)
    watch = Watch(fleet, records)
    strike(fleet, number)
    fleet.every(1.0, watch.check)
    fleet.run()
    # What hung is resumed by then, and hears what its gateways gave up.
    fleet.run_until(max(fleet.timeline.now, _DURATION + 5) + 1)
    if fleet.phases is not None:  # what was given up is read to its end
        link = fleet.phases.link
        fleet.run_until(fleet.timeline.now + link.backlog_bits / link.bits_per_second + 0.001)
    watch.check_end()
    return watch


def run_both(number: int) -> Watch:
    """With records and without: both come to the same results, to the last digit."""
    watch = run(number, is_recorded=True)
    plain = run(number, is_recorded=False)
    traced, untraced = watch.fleet.results.columns, plain.fleet.results.columns
    assert traced is not None
    assert untraced is not None
    assert traced.checksum() == untraced.checksum(), "records change what happens"
    return watch


def main() -> None:
    """Run and print what was met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    met: dict[str, int] = {}
    for number in range(options.first, options.first + options.scenarios):
        try:
            watch = run_both(number)
        except Exception as error:
            raise SystemExit(f"scenario {number}: {type(error).__name__}: {error}") from error
        met["seconds"] = met.get("seconds", 0) + watch.num_checks
        if watch.fleet.phases is not None:
            num_transfers = watch.fleet.phases.counts.num_transfers
            met["transfers"] = met.get("transfers", 0) + num_transfers
        for results in watch.fleet.results.by_class.values():
            met["preemptions"] = met.get("preemptions", 0) + results.num_preemptions
            for disposition, count in results.num_by_disposition.items():
                met[disposition] = met.get(disposition, 0) + count
    told = ", ".join(f"{number} {what}" for what, number in met.items())
    sys.stdout.write(f"the invariants hold in {options.scenarios} scenarios: {told}\n")


if __name__ == "__main__":
    main()

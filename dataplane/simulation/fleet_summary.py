"""What a simulated fleet came to, in numbers: for a table, a program, or a comparison."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dataplane.lifecycle import ANSWERS, Disposition
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_columns import NO_CLASS
from dataplane.simulation.fleet_replica import FleetReplica
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.fleet_results import LATENCIES, ClassResults, FleetResults
from dataplane.simulation.link import GIGA
from dataplane.simulation.phased_replicas import PhasedReplicas, TransferCounts

SHARES = (0.5, 0.95, 0.99)
_LEFT = frozenset({Disposition.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Of one latency at the server, in seconds; None where no request has it."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """The requests of one class. offered = invalid + rejected + admitted, and admitted = answered
    + cut_off + left + failed + in_flight."""

    request_class: str
    offered: int
    invalid: int
    rejected: int
    admitted: int
    answered: int
    """Whole answers, handed over to the end."""
    cut_off: int
    """Generated whole, and not handed over whole: the client had left."""
    left: int
    """Their clients left before the answer was whole."""
    failed: int
    """Errors, and deadlines that passed in the queue."""
    in_flight: int
    """When the run was over: nothing ends them. They are judged by no objective."""
    by_disposition: dict[str, int]
    completed_per_s: float | None
    """Answered; None where no time passed."""
    goodput_per_s: float | None
    """Answered in contract; None likewise, and without a contract for the class."""
    attainment: float | None
    """In contract, of all that were offered and that some objective applies to; None: of none."""
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    preemptions: int
    queue_time: Quantiles
    ttft: Quantiles
    tpot: Quantiles
    e2e: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSummary:
    """One replica, over all of its processes."""

    replica_id: str
    state: str
    phase: str | None
    """Which it did last; None: both."""
    starts: int
    requests: int
    utilisation: float | None
    """Time in steps, of the time in which it served; None: it never did."""
    steps: int
    tokens_per_step: float | None
    """Prompt and output tokens."""
    preemptions: int
    cache_hit_share: float | None
    """Of the prompt tokens that were looked up; None: none were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySummary:
    """One gateway."""

    gateway_id: str
    arrived: int
    invalid: int
    rejected: int
    finished: int
    leaked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSummary:
    """KV that went from prefill replicas to decode replicas. Seconds are means of a transfer."""

    transfers: int
    gigabits: float
    slot_wait: float | None
    """From the first token until a decode replica had a slot; None: nothing went. So the next."""
    link_wait: float | None
    """From then until all of it was there."""
    most_waiting: int
    """For a slot, at once."""
    most_backlog_gigabits: float
    """On the link and before it, at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """A whole run."""

    scenario: str
    seed: int
    seconds: float
    """Of virtual time, until the last request had ended that did."""
    waits: tuple[str, ...]
    """What those in flight wait for: replicas that are stalled, or lack something. Empty where
    all requests have ended, or where nobody knows."""
    classes: tuple[ClassSummary, ...]
    """Those with requests, by name."""
    replicas: tuple[ReplicaSummary, ...]
    gateways: tuple[GatewaySummary, ...]
    transfer: TransferSummary | None
    """None where each replica does both phases."""
    checksum: str | None
    """Of all rows; None where none are kept."""


def summarize(fleet: Fleet) -> FleetSummary:
    """Of a fleet that has run."""
    results = fleet.results
    seconds = fleet.timeline.now if fleet.ended_at is None else fleet.ended_at
    in_flight = Counter(_class_of(request) for request in fleet.live())
    return FleetSummary(
        scenario=fleet.scenario.name,
        seed=fleet.scenario.seed,
        seconds=seconds,
        waits=tuple(fleet.explain_waits()) if in_flight else (),
        classes=tuple(
            _summarize_class(results.of_class(name), in_flight[name], results, seconds)
            for name in sorted({*results.by_class, *in_flight})
        ),
        replicas=tuple(
            _summarize_replica(replica, fleet.phases) for replica in fleet.replicas.values()
        ),
        gateways=tuple(
            GatewaySummary(
                gateway_id=gateway.gateway_id,
                arrived=(counts := gateway.counts()).arrived,
                invalid=counts.invalid,
                rejected=counts.rejected,
                finished=counts.finished,
                leaked=gateway.num_leaked,
            )
            for gateway in fleet.gateways
        ),
        transfer=None if fleet.phases is None else _summarize_transfer(fleet.phases.counts),
        checksum=None if results.columns is None else results.columns.checksum(),
    )


def _class_of(request: FleetRequest) -> str:
    return NO_CLASS if request.request_class is None else request.request_class.name


def _summarize_class(
    results: ClassResults, in_flight: int, of_all: FleetResults, seconds: float
) -> ClassSummary:
    has_contract = of_all.has_contract_for(results.name)
    by_disposition = results.num_by_disposition
    num_answers = _num_of(results, ANSWERS)
    left = _num_of(results, _LEFT)
    refused = results.num_rejected + results.num_invalid
    admitted = results.num_offered - refused + in_flight
    quantiles = {
        latency: Quantiles(p50=p50, p95=p95, p99=p99)
        for latency, (p50, p95, p99) in of_all.quantiles(results, SHARES).items()
    }
    assert tuple(quantiles) == LATENCIES
    return ClassSummary(
        request_class=results.name,
        offered=results.num_offered + in_flight,
        invalid=results.num_invalid,
        rejected=results.num_rejected,
        admitted=admitted,
        answered=results.num_answered,
        cut_off=num_answers - results.num_answered,
        left=left,
        failed=admitted - num_answers - left - in_flight,
        in_flight=in_flight,
        by_disposition=dict(sorted(by_disposition.items())),
        completed_per_s=_share(results.num_answered, seconds),
        goodput_per_s=_share(results.num_answered_in_contract, seconds) if has_contract else None,
        attainment=results.num_in_contract / results.num_judged if results.num_judged else None,
        prompt_tokens=results.num_prompt_tokens,
        cached_tokens=results.num_cached_tokens,
        output_tokens=results.num_output_tokens,
        preemptions=results.num_preemptions,
        **quantiles,
    )


def _num_of(results: ClassResults, dispositions: Iterable[Disposition]) -> int:
    return sum(results.num_by_disposition[disposition] for disposition in dispositions)


def _summarize_transfer(counts: TransferCounts) -> TransferSummary:
    return TransferSummary(
        transfers=counts.num_transfers,
        gigabits=counts.num_bits / GIGA,
        slot_wait=_share(counts.slot_wait_seconds, counts.num_transfers),
        link_wait=_share(counts.link_wait_seconds, counts.num_transfers),
        most_waiting=counts.max_num_waiting,
        most_backlog_gigabits=counts.max_backlog_bits / GIGA,
    )


def _summarize_replica(replica: FleetReplica, phases: PhasedReplicas | None) -> ReplicaSummary:
    counts = replica.counts()
    num_tokens = counts.num_prompt_tokens + counts.num_output_tokens
    return ReplicaSummary(
        replica_id=replica.replica_id,
        state=replica.state,
        phase=None if phases is None else phases.phase_of(replica.replica_id),
        starts=counts.num_starts,
        requests=counts.num_requests,
        utilisation=_share(counts.busy_seconds, counts.serving_seconds),
        steps=counts.num_steps,
        tokens_per_step=_share(num_tokens, counts.num_steps),
        preemptions=counts.num_preemptions,
        cache_hit_share=_share(counts.num_prefix_hit_tokens, counts.num_prefix_query_tokens),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None

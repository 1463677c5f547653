"""Records as a gateway would write them of a replica whose costs are known."""

import random

import msgspec

from dataplane.latency import derive_latencies
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind
from dataplane.record import RequestRecord
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.cost import CostModel
from dataplane.simulation.fitting.document import Machine, Overheads, Spread
from dataplane.simulation.fitting.replay import (
    REPLICA_ID,
    ReplayedRequest,
    ReplicaBounds,
    replay,
)
from tests.dataplane.golden_request import ARRIVED_AT_UNIX_NS, golden_record

MACHINE = Machine(name="here", processor="a processor", num_processors=2)
BOUNDS = ReplicaBounds(
    scheduler=SchedulerConfig(
        max_num_seqs=16,
        max_num_batched_tokens=80,
        max_model_len=1024,
        num_blocks=4096,
        block_size=16,
        max_prefill_tokens_per_step=64,
    ),
    num_slots=18,
)
OVERHEADS = Overheads(
    arrival_to_admission=Spread(median=0.002, p95=0.004, num_samples=1),
    admission_to_idle_engine=Spread(median=0.001, p95=0.002, num_samples=1),
    selection_to_first_write=Spread(median=0.003, p95=0.006, num_samples=1),
    finish_to_last_write=Spread(median=0.001, p95=0.002, num_samples=1),
)
NO_OVERHEADS = Overheads()
_ANCHORED = frozenset(
    {
        EventKind.SCHEDULED,
        EventKind.PREFILL_CHUNK,
        EventKind.FIRST_TOKEN,
        EventKind.TOKENS,
        EventKind.PREEMPTED,
        EventKind.RESUMED,
    }
)


def varied_requests(count: int, rate: float, seed: int) -> list[ReplayedRequest]:
    """Arrivals at random, long and short, often several at once."""
    rng = random.Random(seed)
    at, requests = 0.0, []
    for _ in range(count):
        at += rng.expovariate(rate)
        requests.append(ReplayedRequest(at, rng.randint(1, 200), rng.randint(1, 40)))
    return requests


def simulated_records(
    cost: CostModel,
    requests: list[ReplayedRequest],
    *,
    bounds: ReplicaBounds = BOUNDS,
    overheads: Overheads = NO_OVERHEADS,
    transit: float = 0.0,
    seed: int = 1,
) -> list[RequestRecord]:
    """The records of `requests`. What is anchored lies up to `transit` seconds too early."""
    rng = random.Random(seed)
    lives = replay(requests, bounds, cost, overheads, seed)
    return [
        _record(number, request, events, rng.uniform(0.0, transit), transit)
        for number, (request, events) in enumerate(zip(requests, lives, strict=True))
    ]


def _record(
    number: int,
    request: ReplayedRequest,
    events: tuple[Event, ...],
    early: float,
    transit: float,
) -> RequestRecord:
    placed = tuple(
        msgspec.structs.replace(event, at=max(0.0, event.at - early), at_error=transit)
        if event.kind in _ANCHORED
        else event
        for event in events
    )
    return golden_record(
        request_id=f"request-{number}",
        gateway_sequence=number,
        arrived_at_unix_ns=ARRIVED_AT_UNIX_NS + round(request.at * 1e9),
        num_prompt_tokens=request.num_prompt_tokens,
        num_cached_tokens=0,
        num_output_tokens=request.num_output_tokens,
        disposition=Disposition.LENGTH,
        delivery=Delivery.COMPLETE,
        replica_ids=(REPLICA_ID,),
        events=placed,
        latencies=derive_latencies(placed, request.num_output_tokens),
    )

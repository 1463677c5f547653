"""Spans as vLLM would write them of a simulated replica whose costs are known."""

from collections.abc import Sequence

from dataplane.lifecycle import EventKind, find_event
from dataplane.record import RequestRecord
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.cost import CostModel
from dataplane.simulation.fitting.document import Overheads
from dataplane.simulation.fitting.replay import ReplayedRequest, ReplicaBounds
from dataplane.simulation.fitting.vllm_requests import EngineSpan
from tests.dataplane.simulation.fitting.simulated_records import NO_OVERHEADS, simulated_records

WHOLE_PROMPTS = ReplicaBounds(
    scheduler=SchedulerConfig(
        max_num_seqs=32,
        max_num_batched_tokens=4096,
        max_model_len=2048,
        num_blocks=8192,
        block_size=16,
    ),
    num_slots=34,
)
"""A step holds every prompt that waits, as vLLM's default does for short ones."""
CHUNKED = ReplicaBounds(
    scheduler=SchedulerConfig(
        max_num_seqs=32,
        max_num_batched_tokens=256,
        max_model_len=2048,
        num_blocks=8192,
        block_size=16,
    ),
    num_slots=34,
)
"""Longer prompts are cut, and those that come together share a step's tokens."""
SERVICE = "vllm"


def simulated_spans(
    cost: CostModel,
    requests: list[ReplayedRequest],
    *,
    bounds: ReplicaBounds = WHOLE_PROMPTS,
    overheads: Overheads = NO_OVERHEADS,
    seed: int = 1,
) -> list[EngineSpan]:
    """In the order in which they are written: as requests finish."""
    records = simulated_records(cost, requests, bounds=bounds, overheads=overheads, seed=seed)
    return spans_of(records)


def spans_of(records: Sequence[RequestRecord], service: str = SERVICE) -> list[EngineSpan]:
    """Of requests that an engine answered whole."""
    finished = [(_finished_at(record), span_of(record, service)) for record in records]
    return [span for _, span in sorted(finished, key=lambda each: each[0])]


def span_of(record: RequestRecord, service: str = SERVICE) -> EngineSpan:
    """The attributes that vLLM 0.10 and later write."""
    admitted = _at(record, EventKind.ADMITTED)
    scheduled = _at(record, EventKind.SCHEDULED)
    first = _at(record, EventKind.FIRST_TOKEN)
    finished = _at(record, EventKind.FINISHED)
    return EngineSpan(
        name="llm_request",
        service=service,
        start_unix_ns=record.arrived_at_unix_ns,
        end_unix_ns=record.arrived_at_unix_ns + round(finished * 1e9),
        attributes={
            "gen_ai.request.id": record.request_id,
            "gen_ai.latency.time_to_first_token": first,
            "gen_ai.latency.e2e": finished,
            "gen_ai.latency.time_in_queue": scheduled - admitted,
            "gen_ai.latency.time_in_model_prefill": first - scheduled,
            "gen_ai.latency.time_in_model_decode": finished - first,
            "gen_ai.latency.time_in_model_inference": finished - scheduled,
            "gen_ai.usage.prompt_tokens": record.num_prompt_tokens or 0,
            "gen_ai.usage.completion_tokens": record.num_output_tokens or 0,
        },
    )


def _finished_at(record: RequestRecord) -> float:
    return record.arrived_at_unix_ns / 1e9 + _at(record, EventKind.FINISHED)


def _at(record: RequestRecord, kind: EventKind) -> float:
    event = find_event(record.events, kind)
    assert event is not None, f"{record.request_id} has no {kind}"
    return event.at

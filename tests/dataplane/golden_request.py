"""The golden request: its timeline as events, with and without what the client reports."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dataplane.latency import derive_latencies
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind, Lifecycle, Observability
from dataplane.record import ClientReport, RequestRecord, TraceContext

_FILE = Path(__file__).parents[1] / "golden" / "lifecycle.yaml"

NUM_OUTPUT_TOKENS = 6
CLIENT = ClientReport(first_content=0.051, final_content=0.100, clock_error=0.0)


@functools.cache
def golden_case() -> dict[str, Any]:
    """The file's content."""
    case: dict[str, Any] = YAML(typ="safe").load(_FILE)
    return case


@functools.cache
def golden_events() -> tuple[Event, ...]:
    """The events of `without_client_telemetry`, with those that a lifecycle needs between them."""
    at_ms: dict[str, int] = golden_case()["without_client_telemetry"]["events_ms"]
    events = [_event(EventKind(kind), ms / 1000) for kind, ms in at_ms.items()]
    decisions = [_event(EventKind.RECEIVED, 0.001), _event(EventKind.ADMITTED, 0.002)]
    return tuple(sorted([*events, *decisions], key=lambda event: event.at))


def _event(kind: EventKind, at: float) -> Event:
    match kind:
        case EventKind.FINISHED:
            return Event(kind=kind, at=at, disposition=Disposition.STOP)
        case EventKind.LAST_WRITE:
            return Event(kind=kind, at=at, delivery=Delivery.COMPLETE)
        case _:
            return Event(kind=kind, at=at)


def live_through(events: tuple[Event, ...], num_sequences: int = 1) -> Lifecycle:
    """A lifecycle that took all `events`."""
    lifecycle = Lifecycle(
        request_id="request-1", arrived_at_unix_ns=ARRIVED_AT_UNIX_NS, num_sequences=num_sequences
    )
    for event in events:
        lifecycle.apply(event)
    return lifecycle


ARRIVED_AT_UNIX_NS = 1_700_000_000_000_000_000
TRACE = TraceContext(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331")


def golden_record(client: ClientReport | None = None, **changes: Any) -> RequestRecord:
    """The golden request as the gateway records it; latencies follow from its events."""
    record = RequestRecord(
        request_id="request-1",
        gateway_id="gateway-0-a",
        gateway_sequence=0,
        arrived_at_unix_ns=ARRIVED_AT_UNIX_NS,
        endpoint="/v1/chat/completions",
        tenant="acme",
        request_class="interactive",
        deployment="chat",
        model="tiny",
        model_revision="tiny@1",
        engine_config_revision="paged@1",
        contract_revision="chat@1",
        policy_revision="chat@1",
        snapshot_version=7,
        trace=TRACE,
        is_stream=True,
        status_code=200,
        disposition=Disposition.STOP,
        reason=None,
        delivery=Delivery.COMPLETE,
        num_prompt_tokens=12,
        prompt_tokens_observability=Observability.OBSERVED,
        num_cached_tokens=4,
        num_output_tokens=NUM_OUTPUT_TOKENS,
        max_output_tokens=64,
        engine="paged",
        replica_ids=("replica-1",),
        cleanup_observability=Observability.OBSERVED,
        events=golden_events(),
        client=client,
        latencies=derive_latencies((), 0),
        judgement=None,
    )
    changed = dataclasses.replace(record, **changes)
    if "latencies" in changes:
        return changed
    return dataclasses.replace(
        changed,
        latencies=derive_latencies(changed.events, changed.num_output_tokens, changed.client),
    )

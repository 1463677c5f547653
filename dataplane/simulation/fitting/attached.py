"""Requests of an engine that shows no step, out of the records that a gateway wrote of them.

An attached endpoint shows its chunks and nothing else: when its work on a request really began
nobody knows, so what lies before the first token is no prefill, and only the decode is one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dataplane.lifecycle import ANSWERS, Event, EventKind, find_event
from dataplane.record import RequestRecord
from dataplane.simulation.fitting.served_request import ServedRequest

_TOKENS = frozenset({EventKind.FIRST_TOKEN, EventKind.TOKENS})


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """What records come to."""

    requests: Sequence[ServedRequest]
    """Times since the first arrival of all."""
    lacking: Mapping[str, int]
    """Records that were passed over, by what they lack."""


def shows_chunks(records: Iterable[RequestRecord]) -> bool:
    """Whether the engine told what it computed of a prompt in which step."""
    return any(
        event.kind is EventKind.PREFILL_CHUNK for record in records for event in record.events
    )


def read_attached(records: Sequence[RequestRecord]) -> ReadRecords:
    """Of records that reached a replica."""
    base = min((record.arrived_at_unix_ns for record in records), default=0)
    lacking: Counter[str] = Counter()
    requests = []
    for record in records:
        lacks = _find_lack(record)
        if lacks is not None:
            lacking[lacks] += 1
            continue
        requests.append(_served(record, (record.arrived_at_unix_ns - base) / 1e9))
    return ReadRecords(requests, lacking)


def _find_lack(record: RequestRecord) -> str | None:
    times = [event.at for event in _tokens(record)]
    if record.disposition not in ANSWERS or not times:
        return "a whole answer"
    if len(record.replica_ids) > 1:
        return "a single attempt"
    if any(event.sequence for event in record.events):
        return "a single sequence"
    if not record.num_prompt_tokens or not record.num_output_tokens:
        return "a count of tokens"
    if record.num_output_tokens > 1 and times[-1] <= times[0]:
        return "chunks at several times"
    return None


def _served(record: RequestRecord, offset: float) -> ServedRequest:
    """Of a record that lacks nothing."""
    tokens = _tokens(record)
    scheduled = find_event(record.events, EventKind.SCHEDULED)
    assert scheduled is not None  # nothing is selected before
    return ServedRequest(
        server=record.replica_ids[0],
        scheduled_at=offset + scheduled.at,
        first_token_at=offset + tokens[0].at,
        last_token_at=offset + tokens[-1].at,
        num_prompt_tokens=record.num_prompt_tokens or 0,
        num_output_tokens=record.num_output_tokens or 0,
    )


def _tokens(record: RequestRecord) -> list[Event]:
    return [event for event in record.events if event.kind in _TOKENS]

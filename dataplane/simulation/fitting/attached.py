"""Requests of an engine that shows no step, out of the records that a gateway wrote of them.

An attached endpoint shows its chunks and nothing else. When its work on a request really began
nobody knows: it may have waited there. Its prompt was computed before its first token came, and
right before it, as far as it was not cut; so it counts there, and only the decode has a length.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dataplane.lifecycle import ANSWERS, Event, EventKind
from dataplane.record import RequestRecord
from dataplane.simulation.fitting.served_request import ServedRequest

_A_MOMENT = 1e-6
_TOGETHER = 0.0005
"""Seconds: no engine's step is that short."""
_MOST_TOGETHER = 0.1
"""Of the gaps between the chunks of an answer."""
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
    if record.num_output_tokens > 1 and not _came_one_by_one(times):
        return "chunks that came one by one"
    return None


def _came_one_by_one(times: Sequence[float]) -> bool:
    """Where whoever reads was held up, chunks of many steps come at once, and say nothing of
    the steps."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    num_together = sum(gap < _TOGETHER for gap in gaps)
    return bool(gaps) and num_together <= _MOST_TOGETHER * len(gaps)


def _served(record: RequestRecord, offset: float) -> ServedRequest:
    """Of a record that lacks nothing."""
    tokens = _tokens(record)
    return ServedRequest(
        server=record.replica_ids[0],
        scheduled_at=offset + tokens[0].at - _A_MOMENT,
        first_token_at=offset + tokens[0].at,
        last_token_at=offset + tokens[-1].at,
        num_prompt_tokens=record.num_prompt_tokens or 0,
        num_output_tokens=record.num_output_tokens or 0,
    )


def _tokens(record: RequestRecord) -> list[Event]:
    return [event for event in record.events if event.kind in _TOKENS]

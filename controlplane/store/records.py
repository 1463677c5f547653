"""Taking in the gateways' records: exact counts, compact rows and sampled full records.

One batch is one transaction. A record is known by its gateway and sequence number, so a
batch that is sent again, whole or in part, changes nothing the second time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import msgspec
from sqlalchemy.orm import Session

from controlplane.store.counts import add_counts
from controlplane.store.request_rows import (
    CountKey,
    compact_row,
    count_measures,
    minute_of,
    storable,
)
from controlplane.store.request_tables import GatewayLossRow, RequestRow
from controlplane.store.reservoir import RecordKey
from controlplane.store.reservoirs import ReservoirSizes, keep_some
from controlplane.store.upsert import insert_new, upsert
from dataplane.record import RequestRecord

__all__ = [
    "BatchError",
    "IngestReport",
    "RecordBatch",
    "ReservoirSizes",
    "decode_batch",
    "store_batch",
]

_MAX_BIGINT = 2**63
_MAX_INTEGER = 2**31
_MAX_SECONDS = 1e12


class BatchError(ValueError):
    """A batch that was refused whole. `path` says where, like records[3].events[0].at."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """What a gateway sends."""

    gateway_id: str
    num_lost: int
    """Records this gateway process had to drop since its start."""
    records: tuple[RequestRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What became of a batch."""

    stored: int
    duplicates: int


_DECODER = msgspec.json.Decoder(RecordBatch)


def decode_batch(data: bytes) -> RecordBatch:
    """Decode and check a batch whole.

    Raises BatchError, naming the path, for anything that could not be stored.
    """
    try:
        batch = _DECODER.decode(data)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$")
        raise BatchError(path.strip(".`") or "body", why) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BatchError("body", f"not JSON: {error}") from error
    _require("num_lost", batch.num_lost, _MAX_BIGINT)
    for index, record in enumerate(batch.records):
        _check_record(f"records[{index}]", record)
    return batch


def _check_record(where: str, record: RequestRecord) -> None:
    _require(f"{where}.gateway_sequence", record.gateway_sequence, _MAX_BIGINT)
    _require(f"{where}.arrived_at_unix_ns", record.arrived_at_unix_ns, _MAX_BIGINT)
    _require(f"{where}.num_output_tokens", record.num_output_tokens or 0, _MAX_INTEGER)
    _require(f"{where}.num_prompt_tokens", record.num_prompt_tokens or 0, _MAX_INTEGER)
    _require(f"{where}.num_cached_tokens", record.num_cached_tokens or 0, _MAX_INTEGER)
    _check_metered(where, record)
    _require(f"{where}.status_code", record.status_code or 0, _MAX_INTEGER)
    for name, limit in (("gateway_id", 128), ("request_id", 64)):
        value: str = getattr(record, name)
        if not value or len(value) > limit or "\x00" in value:
            raise BatchError(f"{where}.{name}", f"must hold 1 to {limit} characters, and no NUL")


def _check_metered(where: str, record: RequestRecord) -> None:
    metered = record.metered
    if metered is None:
        return
    for name in ("engine_seconds", "kv_block_seconds"):
        value: float = getattr(metered, name) or 0.0
        if not 0 <= value < _MAX_SECONDS:
            what = f"must lie between 0 and {_MAX_SECONDS:g}, got {value}"
            raise BatchError(f"{where}.metered.{name}", what)


def _require(path: str, value: int, bound: int) -> None:
    if not 0 <= value < bound:
        raise BatchError(path, f"must lie between 0 and {bound - 1}, got {value}")


def store_batch(
    session: Session, batch: RecordBatch, random: Random, sizes: ReservoirSizes
) -> IngestReport:
    """Store what is new in `batch`, in the caller's unit of work.

    Batches may be stored at once, even the same one twice: whoever comes second waits for the
    first to commit, and finds its records stored.
    """
    fresh = _insert_rows(session, batch.records)
    if fresh:
        _add_counts(session, fresh)
        keep_some(session, fresh, random, sizes)
    _note_losses(session, batch)
    return IngestReport(stored=len(fresh), duplicates=len(batch.records) - len(fresh))


def oldest_minute(records: Iterable[RequestRecord]) -> int:
    """The oldest whose counts `records` add to, in seconds since the epoch; there is at least one
    record, and none is judged before it arrives."""
    return min(map(minute_of, records))


def _insert_rows(session: Session, records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Returns the records that were not stored before, by key."""
    by_key = {_key(record): record for record in reversed(records)}
    rows = [compact_row(by_key[key]) for key in sorted(by_key)]
    inserted = insert_new(session, RequestRow.__table__, rows)
    return [by_key[RecordKey(*key)] for key in sorted(inserted)]


def _add_counts(session: Session, records: Iterable[RequestRecord]) -> None:
    totals: Counter[CountKey] = Counter()
    for record in records:
        totals.update(count_measures(record))
    add_counts(session, totals)


def _note_losses(session: Session, batch: RecordBatch) -> None:
    # A gateway counts its losses from its start, so a repeated batch must not add them again.
    if batch.num_lost:
        row = {"gateway_id": storable(batch.gateway_id, 128), "num_lost": batch.num_lost}
        upsert(session, GatewayLossRow.__table__, [row], {"num_lost": "larger"})


def _key(record: RequestRecord) -> RecordKey:
    return RecordKey(record.gateway_id, record.gateway_sequence)

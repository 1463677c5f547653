"""Taking in the gateways' records: exact counts, compact rows and sampled full records.

One batch is one transaction. A record is known by its gateway and sequence number, so a
batch that is sent again, whole or in part, changes nothing the second time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
from sqlalchemy import Table, case, delete, insert, select, tuple_
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import Session

from controlplane.store.request_rows import (
    CountKey,
    compact_row,
    count_measures,
    minute_of,
    reason_to_keep,
    storable,
)
from controlplane.store.request_tables import (
    FullRecordRow,
    GatewayLossRow,
    MinuteCountRow,
    RequestRow,
    ReservoirRow,
)
from controlplane.store.reservoir import RecordKey, Reservoir
from dataplane.record import RequestRecord, encode_record

_MAX_BIGINT = 2**63
_MAX_INTEGER = 2**31
_KEYS_PER_QUERY = 400
_VALUES_PER_STATEMENT = 500

_ReservoirName = tuple[int, str, str]
"""Minute, class, reason."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservoirSizes:
    """Full records kept per class and minute, by the reason for keeping them."""

    error: int = 40
    violator: int = 40
    sample: int = 20

    def of(self, reason: str) -> int:
        """The size for `reason`."""
        size: int = getattr(self, reason)
        return size


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
    _require(f"{where}.num_output_tokens", record.num_output_tokens, _MAX_INTEGER)
    _require(f"{where}.num_prompt_tokens", record.num_prompt_tokens or 0, _MAX_INTEGER)
    _require(f"{where}.num_cached_tokens", record.num_cached_tokens or 0, _MAX_INTEGER)
    _require(f"{where}.status_code", record.status_code or 0, _MAX_INTEGER)
    for name, limit in (("gateway_id", 128), ("request_id", 64)):
        value: str = getattr(record, name)
        if not value or len(value) > limit or "\x00" in value:
            raise BatchError(f"{where}.{name}", f"must hold 1 to {limit} characters, and no NUL")


def _require(path: str, value: int, bound: int) -> None:
    if not 0 <= value < bound:
        raise BatchError(path, f"must lie between 0 and {bound - 1}, got {value}")


def store_batch(
    session: Session, batch: RecordBatch, random: Random, sizes: ReservoirSizes
) -> IngestReport:
    """Store what is new in `batch`, in the caller's unit of work."""
    fresh = _without_duplicates(session, batch.records)
    if fresh:
        session.execute(insert(RequestRow), [compact_row(record) for record in fresh])
        _add_counts(session, fresh)
        _ReservoirUpdate(session, random, sizes).keep(fresh)
    _note_losses(session, batch)
    return IngestReport(stored=len(fresh), duplicates=len(batch.records) - len(fresh))


def _without_duplicates(session: Session, records: Sequence[RequestRecord]) -> list[RequestRecord]:
    by_key = {_key(record): record for record in reversed(records)}
    sequences_by_gateway: dict[str, list[int]] = defaultdict(list)
    for key in by_key:
        sequences_by_gateway[key.gateway_id].append(key.gateway_sequence)
    for gateway_id, sequences in sequences_by_gateway.items():
        for chunk in _chunks(sequences, _KEYS_PER_QUERY):
            known = session.scalars(
                select(RequestRow.gateway_sequence).where(
                    RequestRow.gateway_id == gateway_id, RequestRow.gateway_sequence.in_(chunk)
                )
            )
            for sequence in known:
                del by_key[RecordKey(gateway_id, sequence)]
    return [by_key[key] for key in sorted(by_key)]


def _add_counts(session: Session, records: Iterable[RequestRecord]) -> None:
    totals: Counter[CountKey] = Counter()
    for record in records:
        totals.update(count_measures(record))
    rows = [{**key._asdict(), "value": value} for key, value in sorted(totals.items())]
    _upsert(session, MinuteCountRow.__table__, rows, {"value": "add"})


def _note_losses(session: Session, batch: RecordBatch) -> None:
    # A gateway counts its losses from its start, so a repeated batch must not add them again.
    if batch.num_lost:
        row = {"gateway_id": storable(batch.gateway_id, 128), "num_lost": batch.num_lost}
        _upsert(session, GatewayLossRow.__table__, [row], {"num_lost": "larger"})


@dataclass(slots=True)
class _ReservoirUpdate:
    """Offers the full records of one batch to the reservoirs of their class and minute."""

    session: Session
    random: Random
    sizes: ReservoirSizes
    _reservoirs: dict[_ReservoirName, Reservoir] = field(default_factory=dict)
    _added: dict[RecordKey, tuple[_ReservoirName, RequestRecord]] = field(default_factory=dict)
    _evicted: list[RecordKey] = field(default_factory=list)

    def keep(self, records: Iterable[RequestRecord]) -> None:
        """Draw, then write what changed."""
        for record in records:
            self._offer(record)
        self._delete_evicted()
        if self._added:
            self.session.execute(
                insert(FullRecordRow),
                [_full_row(reservoir, record) for reservoir, record in self._added.values()],
            )
        rows = [
            {
                "minute_unix": minute,
                "request_class": request_class,
                "kept_because": reason,
                "num_offered": reservoir.num_offered,
            }
            for (minute, request_class, reason), reservoir in sorted(self._reservoirs.items())
        ]
        _upsert(self.session, ReservoirRow.__table__, rows, {"num_offered": "larger"})

    def _offer(self, record: RequestRecord) -> None:
        name = (
            minute_of(record),
            storable(record.request_class or "", 128),
            reason_to_keep(record),
        )
        reservoir = self._reservoirs.get(name)
        if reservoir is None:
            reservoir = self._reservoirs[name] = self._load(name)
        key = _key(record)
        loser = reservoir.offer(key, self.random)
        if loser != key:
            self._added[key] = (name, record)
        if loser is not None and loser != key and self._added.pop(loser, None) is None:
            self._evicted.append(loser)

    def _load(self, name: _ReservoirName) -> Reservoir:
        minute, request_class, reason = name
        # Locked, so that two batches of one minute cannot both fill its last place.
        num_offered = self.session.scalar(
            select(ReservoirRow.num_offered)
            .where(
                ReservoirRow.minute_unix == minute,
                ReservoirRow.request_class == request_class,
                ReservoirRow.kept_because == reason,
            )
            .with_for_update()
        )
        kept = self.session.execute(
            select(FullRecordRow.gateway_id, FullRecordRow.gateway_sequence)
            .where(
                FullRecordRow.minute_unix == minute,
                FullRecordRow.request_class == request_class,
                FullRecordRow.kept_because == reason,
            )
            .order_by(FullRecordRow.gateway_id, FullRecordRow.gateway_sequence)
        )
        return Reservoir(
            size=self.sizes.of(reason),
            num_offered=num_offered or 0,
            kept=[RecordKey(*key) for key in kept],
        )

    def _delete_evicted(self) -> None:
        for chunk in _chunks(self._evicted, _KEYS_PER_QUERY):
            self.session.execute(
                delete(FullRecordRow).where(
                    tuple_(FullRecordRow.gateway_id, FullRecordRow.gateway_sequence).in_(chunk)
                )
            )


def _full_row(reservoir: _ReservoirName, record: RequestRecord) -> dict[str, Any]:
    minute, request_class, reason = reservoir
    return {
        "gateway_id": record.gateway_id,
        "gateway_sequence": record.gateway_sequence,
        "request_id": record.request_id,
        "minute_unix": minute,
        "request_class": request_class,
        "kept_because": reason,
        "record": encode_record(record),
    }


def _key(record: RequestRecord) -> RecordKey:
    return RecordKey(record.gateway_id, record.gateway_sequence)


def _upsert(
    session: Session, table: Any, rows: Sequence[Mapping[str, Any]], merge: Mapping[str, str]
) -> None:
    """Insert rows, or merge the named columns into those that exist: `add`, or take the larger."""
    assert isinstance(table, Table)
    is_postgresql = session.get_bind().dialect.name == "postgresql"
    insert_into = postgresql_insert if is_postgresql else sqlite_insert
    for chunk in _chunks(rows, _VALUES_PER_STATEMENT):
        statement = insert_into(table)
        merged = {}
        for name, how in merge.items():
            old, new = table.c[name], statement.excluded[name]
            merged[name] = old + new if how == "add" else _larger(old, new)
        session.execute(
            statement.on_conflict_do_update(
                index_elements=list(table.primary_key.columns), set_=merged
            ),
            chunk,
        )


def _larger(old: Any, new: Any) -> Any:
    return case((new > old, new), else_=old)


def _chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]

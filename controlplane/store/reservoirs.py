"""The reservoirs of full records in the database: one for each minute, class and reason.

Every reservoir that a batch touches is locked before it is read, in one order, so that two
batches of one minute cannot both fill its last place.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session

from controlplane.store.request_rows import minute_of, reason_to_keep, storable
from controlplane.store.request_tables import FullRecordRow, ReservoirRow
from controlplane.store.reservoir import RecordKey, Reservoir
from controlplane.store.upsert import chunks, insert_missing, upsert
from dataplane.record import RequestRecord, encode_record

_KEYS_PER_QUERY = 400


class ReservoirName(NamedTuple):
    """Which reservoir."""

    minute_unix: int
    request_class: str
    kept_because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservoirSizes:
    """Full records kept per class and minute, by the reason for keeping them."""

    error: int = 40
    rejected: int = 40
    violator: int = 40
    sample: int = 20

    def of(self, reason: str) -> int:
        """The size for `reason`."""
        size: int = getattr(self, reason)
        return size


def keep_some(
    session: Session, records: Sequence[RequestRecord], random: Random, sizes: ReservoirSizes
) -> None:
    """Offer the full records of one batch to their reservoirs, and write what changed."""
    names = [_name(record) for record in records]
    reservoirs = _load(session, set(names), sizes)
    draw = _Draw()
    for name, record in zip(names, records, strict=True):
        draw.offer(name, reservoirs[name], record, random)
    _delete(session, draw.evicted)
    # Its compact row may have been removed before, and then the request looks new.
    insert_missing(
        session,
        FullRecordRow.__table__,
        [_full_row(*draw.added[key]) for key in sorted(draw.added)],
    )
    rows = [
        {**name._asdict(), "num_offered": each.num_offered} for name, each in reservoirs.items()
    ]
    upsert(session, ReservoirRow.__table__, rows, {"num_offered": "larger"})


@dataclass(slots=True)
class _Draw:
    """What one batch adds and takes away."""

    added: dict[RecordKey, tuple[ReservoirName, RequestRecord]] = field(default_factory=dict)
    evicted: list[RecordKey] = field(default_factory=list)

    def offer(
        self, name: ReservoirName, reservoir: Reservoir, record: RequestRecord, random: Random
    ) -> None:
        key = RecordKey(record.gateway_id, record.gateway_sequence)
        loser = reservoir.offer(key, random)
        if loser != key:
            self.added[key] = (name, record)
        if loser is not None and loser != key and self.added.pop(loser, None) is None:
            self.evicted.append(loser)


def _load(
    session: Session, names: Collection[ReservoirName], sizes: ReservoirSizes
) -> dict[ReservoirName, Reservoir]:
    """Lock the named reservoirs and read what they hold, in the order of their names."""
    ordered = sorted(names)
    # What is not there cannot be locked.
    insert_missing(
        session, ReservoirRow.__table__, [{**each._asdict(), "num_offered": 0} for each in ordered]
    )
    num_offered: dict[ReservoirName, int] = {}
    kept: dict[ReservoirName, list[RecordKey]] = defaultdict(list)
    for chunk in chunks(ordered, _KEYS_PER_QUERY):
        num_offered.update(_lock(session, chunk))
        for name, key in _kept(session, chunk):
            kept[name].append(key)
    return {
        name: Reservoir(
            size=sizes.of(name.kept_because), num_offered=num_offered[name], kept=kept[name]
        )
        for name in ordered
    }


def _lock(session: Session, names: Sequence[ReservoirName]) -> dict[ReservoirName, int]:
    key = (ReservoirRow.minute_unix, ReservoirRow.request_class, ReservoirRow.kept_because)
    rows = session.execute(
        select(*key, ReservoirRow.num_offered)
        .where(tuple_(*key).in_(names))
        .order_by(*key)
        .with_for_update()
    )
    return {ReservoirName(minute, name, why): offered for minute, name, why, offered in rows}


def _kept(
    session: Session, names: Sequence[ReservoirName]
) -> list[tuple[ReservoirName, RecordKey]]:
    reservoir = (FullRecordRow.minute_unix, FullRecordRow.request_class, FullRecordRow.kept_because)
    rows = session.execute(
        select(*reservoir, FullRecordRow.gateway_id, FullRecordRow.gateway_sequence)
        .where(tuple_(*reservoir).in_(names))
        .order_by(FullRecordRow.gateway_id, FullRecordRow.gateway_sequence)
    )
    return [
        (ReservoirName(minute, name, why), RecordKey(gateway_id, sequence))
        for minute, name, why, gateway_id, sequence in rows
    ]


def _delete(session: Session, keys: Sequence[RecordKey]) -> None:
    for chunk in chunks(keys, _KEYS_PER_QUERY):
        session.execute(
            delete(FullRecordRow).where(
                tuple_(FullRecordRow.gateway_id, FullRecordRow.gateway_sequence).in_(chunk)
            )
        )


def _name(record: RequestRecord) -> ReservoirName:
    request_class = str(storable(record.request_class or "", 128))
    return ReservoirName(minute_of(record), request_class, reason_to_keep(record))


def _full_row(name: ReservoirName, record: RequestRecord) -> dict[str, Any]:
    return {
        "gateway_id": record.gateway_id,
        "gateway_sequence": record.gateway_sequence,
        "request_id": record.request_id,
        **name._asdict(),
        "record": encode_record(record),
    }

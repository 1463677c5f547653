"""Full records that were kept, many at once: a page of them in as many queries as it has parts."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from controlplane.store.request_tables import FullRecordRow, RequestRow
from controlplane.store.requests import PageKey, RequestFilter, list_requests
from controlplane.store.upsert import chunks
from dataplane.record import RequestRecord, decode_record

Key = tuple[str, int]
"""Gateway and sequence number."""
_KEY = (FullRecordRow.gateway_id, FullRecordRow.gateway_sequence)
_KEYS_PER_QUERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecords:
    """A page of them."""

    rows: list[RequestRow]
    """Of their requests, the newest first."""
    records: dict[Key, RequestRecord]
    has_more: bool
    """Behind the last row there are others."""


def list_records(
    session: Session,
    wanted: RequestFilter,
    limit: int,
    max_bytes: int,
    after: PageKey | None = None,
) -> KeptRecords:
    """At most `limit` of the requests that `wanted` asks for, from behind `after`.

    `wanted.has_record` must be set. Records end before they take more than `max_bytes` as they are
    stored; one alone may take more, so that every page goes on.
    """
    found = list_requests(session, wanted, limit + 1, after)
    sizes = _sizes(session, [key_of(row) for row in found[:limit]])
    ends = itertools.accumulate(sizes.get(key_of(row), 0) for row in found[:limit])
    num_fitting = sum(end <= max_bytes for end in ends)
    rows = found[: max(1, num_fitting)]
    return KeptRecords(
        rows=rows,
        records=_load(session, [key_of(row) for row in rows]),
        has_more=len(rows) < len(found),
    )


def key_of(row: RequestRow) -> Key:
    """Of the record of `row`."""
    return row.gateway_id, row.gateway_sequence


def _sizes(session: Session, keys: Sequence[Key]) -> dict[Key, int]:
    """In bytes."""
    return {
        (gateway_id, sequence): size
        for chunk in chunks(keys, _KEYS_PER_QUERY)
        for gateway_id, sequence, size in session.execute(
            select(*_KEY, func.length(FullRecordRow.record)).where(tuple_(*_KEY).in_(chunk))
        )
    }


def _load(session: Session, keys: Sequence[Key]) -> dict[Key, RequestRecord]:
    return {
        (gateway_id, sequence): decode_record(record)
        for chunk in chunks(keys, _KEYS_PER_QUERY)
        for gateway_id, sequence, record in session.execute(
            select(*_KEY, FullRecordRow.record).where(tuple_(*_KEY).in_(chunk))
        )
    }

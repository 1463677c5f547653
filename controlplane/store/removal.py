"""Removing request data in small steps, each a unit of work, and counting what is gone.

A step removes the oldest rows up to a number; rows of the same instant go together. Gateways
that deliver meanwhile wait for one step at most.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, text, tuple_
from sqlalchemy.orm import Session

from controlplane.store.counts import HOUR_SECONDS
from controlplane.store.request_tables import (
    FullRecordRow,
    HourCountRow,
    MinuteCountRow,
    RemovedDataRow,
    RequestRow,
    ReservoirRow,
    SpanReportRow,
)
from controlplane.store.retention import Removal, RemovalReason, Store
from controlplane.store.upsert import upsert

_SECOND_NS = 10**9
_TIMES: dict[Store, tuple[Any, int]] = {
    # Column that a store is ordered by in time, and nanoseconds of its unit.
    Store.FULL_RECORDS: (FullRecordRow.minute_unix, _SECOND_NS),
    Store.REQUESTS: (RequestRow.arrived_at_unix_ns, 1),
    Store.MINUTE_COUNTS: (MinuteCountRow.minute_unix, _SECOND_NS),
}
_LOCK = "pilothouse.removal"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedData:
    """How much of a table was ever removed for one reason."""

    store: str
    reason: str
    num_rows: int
    last_at_unix_ns: int


def oldest_of(session: Session) -> dict[Store, int | None]:
    """When the oldest request in each store arrived, for some to the minute; None: it is empty."""
    oldest: dict[Store, int | None] = {}
    for store, (column, unit) in _TIMES.items():
        found = session.scalar(select(func.min(column)))
        oldest[store] = None if found is None else int(found) * unit
    return oldest


def count_removable(session: Session, removal: Removal) -> int:
    """How many rows `removal` would remove in all."""
    column, unit = _TIMES[removal.store]
    query = select(func.count()).where(column < removal.before_unix_ns // unit)
    return session.scalar(query) or 0


def remove_step(session: Session, removal: Removal, limit: int, now_unix_ns: int) -> int:
    """Remove about `limit` of the oldest rows and count them; returns how many. 0: none is left.

    On PostgreSQL also 0 while another control plane removes.
    """
    if not _may_remove(session):
        return 0
    column, unit = _TIMES[removal.store]
    too_old = column < removal.before_unix_ns // unit
    bound = session.scalar(
        select(column).where(too_old).order_by(column).offset(limit - 1).limit(1)
    )
    if bound is not None:
        too_old = column <= bound
    removed = _remove(session, removal.store, too_old)
    note_removed(session, removed, removal.reason, now_unix_ns)
    return removed[removal.store]


def list_removed(session: Session) -> list[RemovedData]:
    """What was ever removed, by table and reason."""
    rows = session.scalars(
        select(RemovedDataRow).order_by(RemovedDataRow.store, RemovedDataRow.reason)
    )
    return [
        RemovedData(
            store=row.store,
            reason=row.reason,
            num_rows=row.num_rows,
            last_at_unix_ns=row.last_at_unix_ns,
        )
        for row in rows
    ]


def note_removed(
    session: Session, num_rows: dict[str, int], reason: RemovalReason, now_unix_ns: int
) -> None:
    """Add to the totals, by table."""
    rows = [
        {
            "store": store,
            "reason": reason.value,
            "num_rows": number,
            "last_at_unix_ns": now_unix_ns,
        }
        for store, number in sorted(num_rows.items())
        if number
    ]
    merge = {"num_rows": "add", "last_at_unix_ns": "larger"}
    upsert(session, RemovedDataRow.__table__, rows, merge)


def _may_remove(session: Session) -> bool:
    if session.get_bind().dialect.name != "postgresql":
        return True
    query = text("SELECT pg_try_advisory_xact_lock(hashtext(:name))")
    return bool(session.scalar(query, {"name": _LOCK}))


def _remove(session: Session, store: Store, too_old: Any) -> dict[str, int]:
    """Returns the number of rows by table."""
    removed: dict[str, int] = {}
    match store:
        case Store.FULL_RECORDS:
            removed[store] = _delete(session, FullRecordRow, too_old)
            last = session.scalar(select(func.min(FullRecordRow.minute_unix)))
            if last is not None:
                # What is no longer sampled need not be drawn fairly.
                _delete(session, ReservoirRow, ReservoirRow.minute_unix < last)
        case Store.REQUESTS:
            keys = select(RequestRow.gateway_id, RequestRow.gateway_sequence).where(too_old)
            about = tuple_(SpanReportRow.gateway_id, SpanReportRow.gateway_sequence).in_(keys)
            removed["span_reports"] = _delete(session, SpanReportRow, about)
            removed[store] = _delete(session, RequestRow, too_old)
        case Store.MINUTE_COUNTS:
            removed[store] = _delete(session, MinuteCountRow, too_old)
            # An hour goes once none of its minutes is left.
            oldest = session.scalar(select(func.min(MinuteCountRow.minute_unix)))
            kept_from = 2**62 if oldest is None else oldest // HOUR_SECONDS * HOUR_SECONDS
            _delete(session, HourCountRow, HourCountRow.hour_unix < kept_from)
    return removed


def _delete(session: Session, table: Any, condition: Any) -> int:
    result: Any = session.execute(
        delete(table).where(condition).execution_options(synchronize_session=False)
    )
    return int(result.rowcount)

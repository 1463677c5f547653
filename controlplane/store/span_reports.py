"""Span reports: each stored once, joined to its request as soon as both are there.

A report and its request come in any order. Whichever is second finds the other; until then the
report waits, within a bound of time and number, and what gives up waiting is counted. Joining
happens once for each report, in the unit of work that stored the second of the two, so the
counts per minute stay exact however often a span is sent.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, exists, func, select, tuple_
from sqlalchemy.orm import Session

from controlplane.otlp.report import Side, SpanReport
from controlplane.store.contract_terms import FindTerms
from controlplane.store.request_tables import RequestRow, SpanReportRow
from controlplane.store.span_joining import IS_WAITING, decode_report, join_reports
from controlplane.store.upsert import chunks, insert_new
from dataplane.judgement import Judgement
from dataplane.record import RequestRecord

MAX_WAIT_SECONDS = 900.0
"""A request's record usually comes within seconds of its client's span."""
MAX_WAITING_OF_SENDER = 20_000
_JOINING_LOCK = 0x70696C6F  # any number that nothing else in this database locks
_KEYS_PER_QUERY = 100
_JUDGEMENTS = msgspec.json.Decoder(Judgement)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenReports:
    """What became of the reports of one request."""

    stored: Counter[Side]
    num_duplicates: int
    joined: Counter[Side]
    num_expired: int
    """Of all that waited, not only of these."""
    num_displaced: int
    num_waiting: int
    """Of all senders, now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """A report that was joined to a request."""

    report: SpanReport
    judgement: Judgement | None


def lock_for_records(session: Session) -> None:
    """Call first in a unit of work that stores records: reports are not taken until it ends.

    Otherwise a record and its report, stored at the same moment, would not see each other. On
    SQLite there is one writer anyway.
    """
    _lock(session, func.pg_advisory_xact_lock_shared(_JOINING_LOCK))


def take_reports(
    session: Session,
    reports: Sequence[SpanReport],
    sender: str,
    find_terms: FindTerms,
    now_unix_ns: int,
) -> TakenReports:
    """Store what is new, join what can be joined, drop what waited too long."""
    _lock(session, func.pg_advisory_xact_lock(_JOINING_LOCK))
    rows = {(each.trace_id, each.span_id): each for each in reversed(reports)}
    new = insert_new(
        session,
        SpanReportRow.__table__,
        [_row(rows[key], sender, now_unix_ns) for key in sorted(rows)],
    )
    fresh = [rows[trace_id, span_id] for trace_id, span_id, _ in sorted(new)]
    joined = join_reports(
        session,
        {each.trace_id for each in fresh},
        {each.named_request_id for each in fresh if each.named_request_id},
        find_terms,
    )
    num_expired = _drop(session, SpanReportRow.received_at_unix_ns < _oldest(now_unix_ns))
    num_displaced = _displace(session, sender)
    return TakenReports(
        stored=Counter(each.side for each in fresh),
        num_duplicates=len(reports) - len(fresh),
        joined=joined,
        num_expired=num_expired,
        num_displaced=num_displaced,
        num_waiting=_num_waiting(session),
    )


def join_records(
    session: Session, records: Iterable[RequestRecord], find_terms: FindTerms
) -> Counter[Side]:
    """Join what waits for `records`, which were stored in this unit of work."""
    if not session.scalar(select(exists().where(IS_WAITING))):
        return Counter()
    stored = list(records)
    return join_reports(
        session,
        {record.trace.trace_id for record in stored},
        {record.request_id for record in stored},
        find_terms,
    )


def find_span_reports(session: Session, row: RequestRow) -> list[StoredReport]:
    """What clients and engines told about a request, the client first."""
    key = (row.gateway_id, row.gateway_sequence)
    return find_span_reports_of(session, [key]).get(key, [])


def find_span_reports_of(
    session: Session, keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], list[StoredReport]]:
    """The same of several requests, by gateway and sequence number; of some there is none."""
    by_key: dict[tuple[str, int], list[StoredReport]] = {}
    columns = (SpanReportRow.gateway_id, SpanReportRow.gateway_sequence)
    order = (SpanReportRow.side, SpanReportRow.received_at_unix_ns, SpanReportRow.span_id)
    for chunk in chunks(keys, _KEYS_PER_QUERY):
        found = session.scalars(
            select(SpanReportRow).where(tuple_(*columns).in_(chunk)).order_by(*order)
        )
        for each in found:
            assert each.gateway_id is not None  # it is among the keys
            assert each.gateway_sequence is not None
            by_key.setdefault((each.gateway_id, each.gateway_sequence), []).append(
                StoredReport(
                    report=decode_report(each.report),
                    judgement=None
                    if each.judgement is None
                    else _JUDGEMENTS.decode(each.judgement),
                )
            )
    return by_key


def _lock(session: Session, locking: Any) -> None:
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(locking))


def _row(report: SpanReport, sender: str, now_unix_ns: int) -> dict[str, Any]:
    return {
        "trace_id": report.trace_id,
        "span_id": report.span_id,
        "sender": sender,
        "side": report.side.value,
        "named_request_id": report.named_request_id,
        "received_at_unix_ns": now_unix_ns,
        "gateway_id": None,
        "gateway_sequence": None,
        "report": msgspec.json.encode(report),
        "judgement": None,
    }


def _oldest(now_unix_ns: int) -> int:
    return now_unix_ns - int(MAX_WAIT_SECONDS * 1e9)


def _drop(session: Session, condition: ColumnElement[bool]) -> int:
    result: Any = session.execute(
        delete(SpanReportRow)
        .where(IS_WAITING, condition)
        .execution_options(synchronize_session=False)
    )
    return int(result.rowcount)


def _displace(session: Session, sender: str) -> int:
    """Make room: what has waited longest is least likely to be asked for."""
    newest_too_many = session.execute(
        select(SpanReportRow.received_at_unix_ns, SpanReportRow.trace_id, SpanReportRow.span_id)
        .where(IS_WAITING, SpanReportRow.sender == sender)
        .order_by(
            SpanReportRow.received_at_unix_ns.desc(),
            SpanReportRow.trace_id.desc(),
            SpanReportRow.span_id.desc(),
        )
        .offset(MAX_WAITING_OF_SENDER)
        .limit(1)
    ).first()
    if newest_too_many is None:
        return 0
    order = tuple_(SpanReportRow.received_at_unix_ns, SpanReportRow.trace_id, SpanReportRow.span_id)
    return _drop(session, (SpanReportRow.sender == sender) & (order <= tuple(newest_too_many)))


def _num_waiting(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(SpanReportRow).where(IS_WAITING)) or 0

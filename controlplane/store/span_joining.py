"""Joining span reports to the requests they are about, each once, and what that changes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, func, select, tuple_, update
from sqlalchemy.orm import Session

from controlplane.otlp.matching import Candidate, RequestKey, Sent, match_reports
from controlplane.otlp.report import Side, SpanReport
from controlplane.store.client_judgement import effect_of
from controlplane.store.contract_terms import FindTerms
from controlplane.store.counts import add_counts
from controlplane.store.request_rows import CountKey
from controlplane.store.request_tables import RequestRow, SpanReportRow
from controlplane.store.upsert import chunks

IS_WAITING: ColumnElement[bool] = SpanReportRow.gateway_id.is_(None)
_MAX_REQUESTS_OF_TRACE = 200
"""Looked at, the newest first: nothing is told by a trace alone that has so many."""
_KEYS_PER_QUERY = 400
_REPORTS = msgspec.json.Decoder(SpanReport)


def decode_report(data: bytes) -> SpanReport:
    """From a row's `report`."""
    return _REPORTS.decode(data)


def join_reports(
    session: Session, trace_ids: set[str], request_ids: set[str], find_terms: FindTerms
) -> Counter[Side]:
    """Join what waits with these ids to the requests that are known; returns how many did.

    Call it once after reports or records with these ids were stored, in the same unit of work.
    """
    waiting = _waiting(session, trace_ids, request_ids)
    if not waiting:
        return Counter()
    requests = _requests(
        session,
        {row.trace_id for row in waiting},
        {row.named_request_id for row in waiting if row.named_request_id},
    )
    sent = [Sent(decode_report(row.report), row.sender) for row in waiting]
    keys = match_reports(sent, _candidates(session, list(requests.values())))
    counts: Counter[CountKey] = Counter()
    joined: Counter[Side] = Counter()
    for row, (report, _), key in zip(waiting, sent, keys, strict=True):
        if key is None:
            continue
        row.gateway_id, row.gateway_sequence = key
        joined[report.side] += 1
        if report.client is not None:
            request = requests[key]
            terms = find_terms(request.contract_revision, request.request_class)
            effect = effect_of(request, report.client.report, terms)
            counts.update(effect.counts)
            if effect.judgement is not None:
                row.judgement = msgspec.json.encode(effect.judgement)
            if effect.columns:
                session.execute(_update(key, effect.columns))
    session.flush()
    add_counts(session, counts)
    return joined


def _update(key: RequestKey, columns: dict[str, Any]) -> Any:
    return (
        update(RequestRow)
        .where(
            RequestRow.gateway_id == key.gateway_id,
            RequestRow.gateway_sequence == key.gateway_sequence,
        )
        .values(columns)
        .execution_options(synchronize_session=False)
    )


def _waiting(session: Session, trace_ids: set[str], request_ids: set[str]) -> list[SpanReportRow]:
    found: dict[tuple[str, str, str], SpanReportRow] = {}
    for column, values in (
        (SpanReportRow.trace_id, trace_ids),
        (SpanReportRow.named_request_id, request_ids),
    ):
        for chunk in chunks(sorted(values), _KEYS_PER_QUERY):
            # Whether it waits is not asked of the database: it would look through all that wait.
            rows = session.scalars(select(SpanReportRow).where(column.in_(chunk)))
            found |= {
                (row.trace_id, row.span_id, row.sender): row
                for row in rows
                if row.gateway_id is None
            }
    return [found[key] for key in sorted(found)]


def _requests(
    session: Session, trace_ids: set[str], request_ids: set[str]
) -> dict[RequestKey, RequestRow]:
    found: dict[RequestKey, RequestRow] = {}
    for column, values in (
        (RequestRow.trace_id, trace_ids),
        (RequestRow.request_id, request_ids),
    ):
        for chunk in chunks(sorted(values), _KEYS_PER_QUERY):
            newest_first = func.row_number().over(
                partition_by=column, order_by=RequestRow.arrived_at_unix_ns.desc()
            )
            numbered = (
                select(RequestRow.gateway_id, RequestRow.gateway_sequence, newest_first.label("n"))
                .where(column.in_(chunk))
                .subquery()
            )
            rows = session.scalars(
                select(RequestRow)
                .join(
                    numbered,
                    (RequestRow.gateway_id == numbered.c.gateway_id)
                    & (RequestRow.gateway_sequence == numbered.c.gateway_sequence),
                )
                .where(numbered.c.n <= _MAX_REQUESTS_OF_TRACE)
            )
            found |= {RequestKey(row.gateway_id, row.gateway_sequence): row for row in rows}
    return found


def _candidates(session: Session, rows: Sequence[RequestRow]) -> list[Candidate]:
    reported: Counter[tuple[RequestKey, str]] = Counter()
    for chunk in chunks([(row.gateway_id, row.gateway_sequence) for row in rows], _KEYS_PER_QUERY):
        counted = session.execute(
            select(
                SpanReportRow.gateway_id,
                SpanReportRow.gateway_sequence,
                SpanReportRow.side,
                func.count(),
            )
            .where(tuple_(SpanReportRow.gateway_id, SpanReportRow.gateway_sequence).in_(chunk))
            .group_by(SpanReportRow.gateway_id, SpanReportRow.gateway_sequence, SpanReportRow.side)
        )
        for gateway_id, sequence, side, number in counted:
            if gateway_id is not None and sequence is not None:
                reported[RequestKey(gateway_id, sequence), side] = number
    return [_candidate(row, reported) for row in rows]


def _candidate(row: RequestRow, reported: Counter[tuple[RequestKey, str]]) -> Candidate:
    key = RequestKey(row.gateway_id, row.gateway_sequence)
    return Candidate(
        key=key,
        request_id=row.request_id,
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_span_id=row.parent_span_id,
        tenant=row.tenant,
        # A refusal is written too, but no content. Of a lost request no write is known either.
        has_output=row.first_write is not None and bool(row.num_output_tokens),
        has_client_report=reported[key, Side.CLIENT.value] > 0,
        num_engine_reports=reported[key, Side.ENGINE.value],
    )

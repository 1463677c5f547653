"""Reading request data: a filtered list in pages, one request by its ids, and totals.

Lists are paged by key and never by offset: a page costs the same wherever it lies, and
requests that arrive meanwhile neither repeat nor hide a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import ColumnElement, Select, exists, func, literal_column, select, tuple_
from sqlalchemy.orm import Session

from controlplane.store.missed_objective import MissedObjective, missed_conditions
from controlplane.store.request_tables import (
    FullRecordRow,
    GatewayLossRow,
    HourCountRow,
    MinuteCountRow,
    RequestRow,
)
from dataplane.record import RequestRecord, decode_record

MAX_MATCHES = 20
_ORDER = (RequestRow.arrived_at_unix_ns, RequestRow.gateway_id, RequestRow.gateway_sequence)
_KEY = (RequestRow.gateway_id, RequestRow.gateway_sequence)
_FEW = 5000
"""Requests that are sorted at once without anybody noticing."""
_AFTER_EVERY_SUFFIX = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """Which requests. None: any."""

    deployment: str | None = None
    request_class: str | None = None
    tenant: str | None = None
    disposition: str | None = None
    in_contract: bool | None = None
    since_unix_ns: int | None = None
    only_tenant: str | None = None
    """Beside `tenant`: the one whose requests whoever asks may see at all."""
    until_unix_ns: int | None = None
    """Before this instant."""
    missed: MissedObjective | None = None
    has_record: bool = False
    """Only those whose full records were kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageKey:
    """Where a page ends: the next one starts behind this request."""

    arrived_at_unix_ns: int
    gateway_sequence: int
    gateway_id: str

    @classmethod
    def of(cls, row: RequestRow) -> Self:
        """The key of `row`."""
        return cls(
            arrived_at_unix_ns=row.arrived_at_unix_ns,
            gateway_sequence=row.gateway_sequence,
            gateway_id=row.gateway_id,
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`. Raises ValueError when `text` is no key."""
        arrived, sequence, gateway_id = text.split(".", 2)
        key = cls(
            arrived_at_unix_ns=int(arrived), gateway_sequence=int(sequence), gateway_id=gateway_id
        )
        if not (0 <= key.arrived_at_unix_ns < 2**63 and 0 <= key.gateway_sequence < 2**63):
            raise ValueError("a number is out of range")
        return key

    def __str__(self) -> str:
        return f"{self.arrived_at_unix_ns}.{self.gateway_sequence}.{self.gateway_id}"


def find_page_key(session: Session, request_id: str, only_tenant: str | None) -> PageKey | None:
    """The key of the page that ends with this request; None when it is not kept."""
    query = _newest(RequestRow.request_id == request_id)
    if only_tenant is not None:
        query = query.where(RequestRow.tenant == only_tenant)
    row = session.scalars(query).first()
    return None if row is None else PageKey.of(row)


def list_requests(
    session: Session, wanted: RequestFilter, limit: int, after: PageKey | None = None
) -> list[RequestRow]:
    """At most `limit` requests, the newest first, from behind `after`."""
    conditions = _conditions(wanted)
    if after is not None:
        # The first condition is implied by the second; it is what the index can use.
        conditions += [
            RequestRow.arrived_at_unix_ns <= after.arrived_at_unix_ns,
            tuple_(*_ORDER) < (after.arrived_at_unix_ns, after.gateway_id, after.gateway_sequence),
        ]
    query = select(RequestRow)
    if _is_rare(session, wanted):
        # Found first and sorted then. Left to itself, a database that takes names for
        # independent of each other would go through all of time, looking for what is not there.
        matched = select(*_KEY).where(*conditions).cte("matched").prefix_with("MATERIALIZED")
        query = query.where(tuple_(*_KEY).in_(select(*matched.c)))
    else:
        query = query.where(*conditions)
    query = query.order_by(*(column.desc() for column in _ORDER)).limit(limit)
    return list(session.scalars(query))


def _is_rare(session: Session, wanted: RequestFilter) -> bool:
    """Whether several names are asked for that occurred together in few requests, by the exact
    counts. It decides how rows are looked for, never which are found."""
    tenant = wanted.only_tenant or wanted.tenant
    names = [wanted.deployment, wanted.request_class, tenant, wanted.disposition]
    if sum(name is not None for name in names) < 2:
        return False
    measure = "offered" if wanted.disposition is None else f"disposition.{wanted.disposition}"
    conditions: list[ColumnElement[bool]] = [HourCountRow.measure == measure]
    if wanted.deployment is not None:
        conditions.append(HourCountRow.deployment == wanted.deployment)
    if wanted.request_class is not None:
        conditions.append(HourCountRow.request_class == wanted.request_class)
    if tenant is not None:
        # Some are counted of no tenant, whatever their rows say (see request_rows).
        conditions.append(HourCountRow.tenant.in_((tenant, "")))
    counted = session.scalar(select(func.sum(HourCountRow.value)).where(*conditions))
    return int(counted or 0) < _FEW


def find_requests(
    session: Session, identifier: str, only_tenant: str | None = None
) -> list[RequestRow]:
    """The requests that `identifier` names: a request id, a trace id, or the start of one.

    An exact id wins over a prefix. Newest first, at most MAX_MATCHES; an empty identifier
    names nothing. With `only_tenant`, what belongs to others does not exist.
    """
    if not identifier:
        return []
    for condition in (
        RequestRow.request_id == identifier,
        RequestRow.trace_id == identifier,
        _starts_with(RequestRow.request_id, identifier),
        _starts_with(RequestRow.trace_id, identifier),
    ):
        query = _newest(condition)
        if only_tenant is not None:
            query = query.where(RequestRow.tenant == only_tenant)
        rows = list(session.scalars(query))
        if rows:
            return rows
    return []


def find_record(session: Session, row: RequestRow) -> tuple[RequestRecord, str] | None:
    """The full record of `row` and why it was kept, or None when it was not."""
    kept = session.get(FullRecordRow, (row.gateway_id, row.gateway_sequence))
    return None if kept is None else (decode_record(kept.record), kept.kept_because)


def count_since(
    session: Session, since_minute_unix: int, measures: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Exact totals by deployment and measure; the deployment is "" where none was found."""
    totals: dict[str, dict[str, int]] = {}
    rows = session.execute(
        select(MinuteCountRow.deployment, MinuteCountRow.measure, func.sum(MinuteCountRow.value))
        .where(
            MinuteCountRow.minute_unix >= since_minute_unix, MinuteCountRow.measure.in_(measures)
        )
        .group_by(MinuteCountRow.deployment, MinuteCountRow.measure)
    )
    for deployment, measure, value in rows:
        totals.setdefault(deployment, {})[measure] = int(value)
    return totals


def ttft_quantile(
    session: Session, deployment: str, since_unix_ns: int, quantile: float
) -> float | None:
    """Of the requests that had a first token; seconds, by nearest rank. None: there was none."""
    measured = (
        RequestRow.deployment == deployment,
        RequestRow.arrived_at_unix_ns >= since_unix_ns,
        RequestRow.ttft.is_not(None),
    )
    count = session.scalar(select(func.count()).select_from(RequestRow).where(*measured)) or 0
    if count == 0:
        return None
    rank = max(0, -int(-quantile * count // 1) - 1)
    return session.scalar(
        select(RequestRow.ttft).where(*measured).order_by(RequestRow.ttft).offset(rank).limit(1)
    )


def list_names(
    session: Session, since_minute_unix: int, only_tenant: str | None = None
) -> dict[str, list[str]]:
    """The deployments, classes and tenants seen since then, sorted: what a filter can offer.

    With `only_tenant`, those that its own requests had.
    """
    names: dict[str, list[str]] = {}
    # Written out and not bound: only so does SQLite see that its partial index will do.
    is_offered = MinuteCountRow.measure == literal_column("'offered'")
    seen = [is_offered, MinuteCountRow.minute_unix >= since_minute_unix]
    if only_tenant is not None:
        seen.append(MinuteCountRow.tenant == only_tenant)
    for field, column in (
        ("deployment", MinuteCountRow.deployment),
        ("request_class", MinuteCountRow.request_class),
        ("tenant", MinuteCountRow.tenant),
    ):
        found = session.scalars(
            select(column).where(*seen, column != "").distinct().order_by(column).limit(200)
        )
        names[field] = list(found)
    return names


def num_records_lost(session: Session) -> int:
    """Records that gateways say they had to drop, in all."""
    return int(session.scalar(select(func.sum(GatewayLossRow.num_lost))) or 0)


def _conditions(wanted: RequestFilter) -> list[ColumnElement[bool]]:
    equal = {
        RequestRow.deployment: wanted.deployment,
        RequestRow.request_class: wanted.request_class,
        RequestRow.tenant: wanted.tenant,
        RequestRow.disposition: wanted.disposition,
        RequestRow.in_contract: wanted.in_contract,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if wanted.only_tenant is not None:
        conditions.append(RequestRow.tenant == wanted.only_tenant)
    if wanted.since_unix_ns is not None:
        conditions.append(RequestRow.arrived_at_unix_ns >= wanted.since_unix_ns)
    if wanted.until_unix_ns is not None:
        conditions.append(RequestRow.arrived_at_unix_ns < wanted.until_unix_ns)
    if wanted.missed is not None:
        conditions += missed_conditions(wanted.missed)
    if wanted.has_record:
        conditions.append(
            exists().where(
                FullRecordRow.gateway_id == RequestRow.gateway_id,
                FullRecordRow.gateway_sequence == RequestRow.gateway_sequence,
            )
        )
    return conditions


def _starts_with(column: Any, prefix: str) -> ColumnElement[bool]:
    # A range and not LIKE: the index serves it, and no character of the id is a wildcard.
    condition: ColumnElement[bool] = (column >= prefix) & (column < prefix + _AFTER_EVERY_SUFFIX)
    return condition


def _newest(condition: ColumnElement[bool]) -> Select[RequestRow]:
    return (
        select(RequestRow)
        .where(condition)
        .order_by(*(column.desc() for column in _ORDER))
        .limit(MAX_MATCHES)
    )

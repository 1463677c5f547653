"""What was used, by deployment, class and tenant: sums of the exact counts over a time."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from controlplane.store.count_parts import CountPart, parts_of
from controlplane.store.metered_measures import MEASURES
from controlplane.store.request_tables import HourCountRow, MinuteCountRow
from dataplane.lifecycle import BROKEN, REFUSED

_MEASURES = (
    "offered", "in_contract.good", "in_contract.total", "tokens.input", "tokens.cached",
    "tokens.output", *(f"disposition.{each.value}" for each in sorted(REFUSED | BROKEN)), *MEASURES,
)  # fmt: skip


class UsageKey(NamedTuple):
    """Whose use it was."""

    deployment: str
    request_class: str
    tenant: str


def read_usage(
    session: Session,
    start_unix: int,
    end_unix: int,
    tenant: str | None = None,
    deployment: str | None = None,
) -> dict[UsageKey, Counter[str]]:
    """Sums by measure of what arrived from `start_unix` until before `end_unix`, whole minutes
    both; one that is absent was not counted. With `tenant` or `deployment`, only what was counted
    for it. What never found a deployment used nothing."""
    return read_usage_within(session, [(start_unix, end_unix)], tenant, deployment)


def read_usage_within(
    session: Session,
    times: Sequence[tuple[int, int]],
    tenant: str | None = None,
    deployment: str | None = None,
) -> dict[UsageKey, Counter[str]]:
    """The same of several times together, none of which overlaps another."""
    found: dict[UsageKey, Counter[str]] = {}
    parts = [part for start, end in times for part in parts_of(start, end)]
    for table in (HourCountRow, MinuteCountRow):
        of_table = [part for part in parts if part.table is table]
        for first in range(0, len(of_table), _MOST_AT_ONCE):
            some = of_table[first : first + _MOST_AT_ONCE]
            _add(session, found, some, tenant, deployment)
    return found


_MOST_AT_ONCE = 200
"""Pieces of time in one query: SQLite reads no condition that is nested a thousand deep."""


def _add(
    session: Session,
    found: dict[UsageKey, Counter[str]],
    parts: Sequence[CountPart],
    tenant: str | None,
    deployment: str | None,
) -> None:
    """Those of `parts`, which are of one table."""
    table = parts[0].table
    key = (table.deployment, table.request_class, table.tenant)
    conditions = [
        or_(*(part.is_within for part in parts)),
        table.deployment != "",
        table.measure.in_(_MEASURES),
    ]
    if tenant is not None:
        conditions.append(table.tenant == tenant)
    if deployment is not None:
        conditions.append(table.deployment == deployment)
    rows = session.execute(
        select(*key, table.measure, func.sum(table.value))
        .where(*conditions)
        .group_by(*key, table.measure)
    )
    for of_deployment, request_class, of_tenant, measure, value in rows:
        counts = found.setdefault(UsageKey(of_deployment, request_class, of_tenant), Counter())
        counts[measure] += int(value)

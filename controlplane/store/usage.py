"""What was used, by deployment, class and tenant: sums of the exact counts over a time."""

from collections import Counter
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.store.count_parts import CountPart, parts_of
from controlplane.store.metered_measures import MEASURES
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
    found: dict[UsageKey, Counter[str]] = {}
    for part in parts_of(start_unix, end_unix):
        _add(session, found, part, tenant, deployment)
    return found


def _add(
    session: Session,
    found: dict[UsageKey, Counter[str]],
    part: CountPart,
    tenant: str | None,
    deployment: str | None,
) -> None:
    table = part.table
    key = (table.deployment, table.request_class, table.tenant)
    conditions = [
        part.is_within,
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

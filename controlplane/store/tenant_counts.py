"""Exact counts of one deployment, tenant by tenant."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.store.request_tables import MinuteCountRow


def count_by_tenant(
    session: Session, deployment: str, since_minute_unix: int, measures: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Totals by tenant and measure since that whole minute; the tenant is "" where none was
    known."""
    columns = (MinuteCountRow.tenant, MinuteCountRow.measure)
    rows = session.execute(
        select(*columns, func.sum(MinuteCountRow.value))
        .where(
            MinuteCountRow.minute_unix >= since_minute_unix,
            MinuteCountRow.deployment == deployment,
            MinuteCountRow.measure.in_(measures),
        )
        .group_by(*columns)
    )
    totals: dict[str, dict[str, int]] = {}
    for tenant, measure, value in rows:
        totals.setdefault(tenant, {})[measure] = int(value)
    return totals

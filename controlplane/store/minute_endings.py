"""How the requests of the last minutes ended, from the exact counts."""

from typing import NamedTuple

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from controlplane.store.request_tables import MinuteCountRow

OFFERED = "offered"
INPUT_TOKENS = "tokens.input"
DISPOSITION_PREFIX = "disposition."
GOOD, JUDGED = "in_contract.good", "in_contract.total"


class EndingKey(NamedTuple):
    """What was counted, of whom, in which minute of arrival."""

    minute_unix: int
    deployment: str
    tenant: str
    measure: str
    """offered, tokens.input, disposition.<word>, in_contract.good or in_contract.total."""


def count_endings(session: Session, since_minute_unix: int) -> dict[EndingKey, int]:
    """Of all deployments, since that whole minute. Requests are counted when they ended, at the
    minute in which they arrived: what is under way is not among them."""
    columns = (
        MinuteCountRow.minute_unix,
        MinuteCountRow.deployment,
        MinuteCountRow.tenant,
        MinuteCountRow.measure,
    )
    rows = session.execute(
        select(*columns, func.sum(MinuteCountRow.value))
        .where(
            MinuteCountRow.minute_unix >= since_minute_unix,
            MinuteCountRow.deployment != "",
            or_(
                MinuteCountRow.measure.in_((OFFERED, INPUT_TOKENS, GOOD, JUDGED)),
                MinuteCountRow.measure.like(f"{DISPOSITION_PREFIX}%"),
            ),
        )
        .group_by(*columns)
    )
    return {
        EndingKey(minute, deployment, tenant, measure): int(value)
        for minute, deployment, tenant, measure, value in rows
    }

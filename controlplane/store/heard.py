"""Which deployments gateways told of, and since when, by the gauges of each minute."""

from collections.abc import Iterable

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from controlplane.store.request_tables import MinuteCountRow
from controlplane.store.series import SAMPLED_GATEWAYS

# In the index's own words: that is how a database sees that the index serves.
_IS_SAMPLED = text("minute_counts.measure LIKE 'sampled.%'")


def heard_of(
    session: Session, deployments: Iterable[str], since_unix: int, until_unix: int
) -> set[str]:
    """Those that any gateway told of from one whole minute until before the other. Of one that has
    no replicas, and that nobody asked for, no gateway tells."""
    query = select(MinuteCountRow.deployment).where(
        MinuteCountRow.deployment.in_(sorted(deployments)),
        MinuteCountRow.minute_unix >= since_unix,
        MinuteCountRow.minute_unix < until_unix,
        _IS_SAMPLED,
        MinuteCountRow.measure == SAMPLED_GATEWAYS,
    )
    return set(session.scalars(query.distinct()))


def first_heard(session: Session, deployment: str) -> int | None:
    """The oldest minute of which counts of it are kept, in seconds since the epoch: when gateways
    began to tell of it, or as far back as minutes are kept. None: they never did."""
    query = (
        select(MinuteCountRow.minute_unix)
        .where(MinuteCountRow.deployment == deployment, _IS_SAMPLED)
        .order_by(MinuteCountRow.minute_unix)
        .limit(1)
    )
    return session.scalars(query).first()

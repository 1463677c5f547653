"""How many rollouts are under way, and how those that are over have ended."""

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from controlplane.rollouts.machine import RolloutState
from controlplane.store.rollout_tables import RolloutMoveRow, RolloutRow
from controlplane.store.rollouts import BY_ITSELF

ENDED_BY = ("analysis", "config", "person", "replicas", "timeout")
"""What a rollout can have ended by: that its arms were compared, that its documents ask for
something else, somebody's demand, replicas of the candidate that failed or were never ready, or a
step that nothing was decided about in its time."""


def count_living(session: Session) -> dict[tuple[str, str], int]:
    """By deployment and state."""
    rows = session.execute(
        select(RolloutRow.deployment, RolloutRow.state, func.count())
        .where(RolloutRow.ended_at_unix_ns.is_(None))
        .group_by(RolloutRow.deployment, RolloutRow.state)
    )
    return {(deployment, state): number for deployment, state, number in rows}


def count_ended(session: Session) -> dict[tuple[str, str], int]:
    """Since the database was created, by state and what it was that ended them (ENDED_BY)."""
    ended = [state.value for state in RolloutState if state.is_over]
    reason = case(
        (RolloutMoveRow.reason.startswith("its deployment asks "), "config"),
        (RolloutMoveRow.actor != BY_ITSELF, "person"),
        (RolloutMoveRow.reason.startswith("replicas of the candidate "), "replicas"),
        (RolloutMoveRow.reason.startswith("it was not ready "), "replicas"),
        (RolloutMoveRow.reason.startswith("undecided after "), "timeout"),
        else_="analysis",
    ).label("ended_by")
    rows = session.execute(
        select(RolloutMoveRow.state, reason, func.count())
        .where(RolloutMoveRow.state.in_(ended))
        .group_by(RolloutMoveRow.state, reason)
    )
    return {(state, ended_by): number for state, ended_by, number in rows}

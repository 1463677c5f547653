"""How long replicas of a deployment were there, and what that cost by the price of the time.

A replica is paid for from its start to its end, whether it starts, works, waits or drains. The
price is a field of the Deployment, so that it has a history: each hour costs what the revision
that was in force then said.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from controlplane.specs.deployment import DeploymentSpec, ReplicaPriceSpec
from controlplane.specs.document import StoredDocumentError
from controlplane.store.replicas import ENDED
from controlplane.store.revision import read_revision
from controlplane.store.tables import (
    DeploymentChangeRow,
    ReplicaRow,
    ReplicaTransitionRow,
    RevisionRow,
)

_NS_PER_SECOND = 10**9
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCost:
    """Of one deployment over a time."""

    replica_seconds: float
    amount: float | None
    """None: `why_no_amount` says why."""
    currency: str | None
    why_no_amount: str | None = None


def read_replica_costs(
    session: Session, start_unix_ns: int, end_unix_ns: int
) -> dict[str, ReplicaCost]:
    """By deployment, of those that had a replica then."""
    spans = _spans(session, start_unix_ns, end_unix_ns)
    prices = {name: _prices(session, name, start_unix_ns, end_unix_ns) for name in spans}
    return {name: _cost(spans[name], prices[name]) for name in spans}


_Span = tuple[int, int]
_Price = ReplicaPriceSpec | None


def _spans(session: Session, start_unix_ns: int, end_unix_ns: int) -> dict[str, list[_Span]]:
    """When replicas were there, by deployment, in Unix nanoseconds."""
    ended = (
        select(
            ReplicaTransitionRow.replica_id,
            func.min(ReplicaTransitionRow.at_unix_ns).label("at_unix_ns"),
        )
        .where(ReplicaTransitionRow.state.in_([state.value for state in ENDED]))
        .group_by(ReplicaTransitionRow.replica_id)
        .subquery()
    )
    rows = session.execute(
        select(ReplicaRow.deployment, ReplicaRow.created_at_unix_ns, ended.c.at_unix_ns)
        .outerjoin(ended, ended.c.replica_id == ReplicaRow.replica_id)
        .where(
            ReplicaRow.created_at_unix_ns < end_unix_ns,
            or_(ended.c.at_unix_ns.is_(None), ended.c.at_unix_ns > start_unix_ns),
        )
    )
    found: dict[str, list[_Span]] = defaultdict(list)
    for deployment, created_at, ended_at in rows:
        until = end_unix_ns if ended_at is None else min(end_unix_ns, int(ended_at))
        found[deployment].append((max(start_unix_ns, int(created_at)), until))
    return dict(found)


def _prices(
    session: Session, name: str, start_unix_ns: int, end_unix_ns: int
) -> list[tuple[_Span, _Price]]:
    """Which price was in force when, without gaps from the first change on."""
    rows = session.execute(
        select(DeploymentChangeRow.at_unix_ns, RevisionRow)
        .join(RevisionRow, RevisionRow.id == DeploymentChangeRow.revision_id)
        .where(DeploymentChangeRow.deployment == name, DeploymentChangeRow.at_unix_ns < end_unix_ns)
        .order_by(DeploymentChangeRow.generation.desc())
    )
    found: list[tuple[_Span, _Price]] = []
    until = end_unix_ns
    for at_unix_ns, row in rows:
        found.append(((int(at_unix_ns), until), _price(row)))
        until = int(at_unix_ns)
        if until <= start_unix_ns:
            break
    return found


def _price(row: RevisionRow) -> _Price:
    try:
        return read_revision(row).spec(DeploymentSpec).replica_price
    except StoredDocumentError:
        return None  # of another version: its hours have no price that we could read


def _cost(spans: Sequence[_Span], prices: Sequence[tuple[_Span, _Price]]) -> ReplicaCost:
    total = sum(end - start for start, end in spans)
    priced, amount, currencies = 0, 0.0, set[str]()
    for in_force, price in prices:
        common = sum(max(0, min(e, in_force[1]) - max(s, in_force[0])) for s, e in spans)
        if price is not None and common:
            priced += common
            amount += common / _NS_PER_SECOND / _SECONDS_PER_HOUR * price.per_hour
            currencies.add(price.currency)
    why = _why_no_amount(total, priced, currencies)
    return ReplicaCost(
        replica_seconds=total / _NS_PER_SECOND,
        amount=amount if why is None else None,
        currency=min(currencies) if len(currencies) == 1 else None,
        why_no_amount=why,
    )


def _why_no_amount(total: int, priced: int, currencies: set[str]) -> str | None:
    if not priced:
        return "no price: set replica_price in the Deployment"
    if len(currencies) > 1:
        return f"its price was in {' and '.join(sorted(currencies))}: ask for a time of one"
    if priced < total:
        hours = (total - priced) / _NS_PER_SECOND / _SECONDS_PER_HOUR
        return f"{hours:.1f} replica-hours were before it had a price: ask for a later time"
    return None

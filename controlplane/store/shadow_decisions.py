"""What a rollout's candidate policy decided while it only looked on, added up."""

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from controlplane.rollouts.analysis.shadow import ShadowGroup, ShadowSeen, ShadowTenant
from controlplane.store.request_tables import RequestRow

_MOST_TENANTS = 10
_KEYS = (
    RequestRow.request_class,
    RequestRow.shadow_enforced,
    RequestRow.shadow_outcome,
    RequestRow.shadow_class,
    RequestRow.shadow_kind,
    RequestRow.shadow_differs,
)


def read_shadow(session: Session, deployment: str, rollout: int, since_unix_ns: int) -> ShadowSeen:
    """Of requests that arrived since then and have ended."""
    where = (
        RequestRow.deployment == deployment,
        RequestRow.arrived_at_unix_ns >= since_unix_ns,
        RequestRow.rollout == rollout,
        RequestRow.shadow_outcome.is_not(None),
    )
    return ShadowSeen(groups=_groups(session, where), tenants=_tenants(session, where))


def _groups(session: Session, where: tuple[ColumnElement[bool], ...]) -> list[ShadowGroup]:
    num = func.count()
    query = (
        select(*_KEYS, num.label("num"), func.max(RequestRow.request_id).label("example"))
        .where(*where)
        .group_by(*_KEYS)
    )
    found = [
        ShadowGroup(
            request_class=row.request_class or "",
            enforced=row.shadow_enforced or "",
            outcome=row.shadow_outcome,
            shadow_class=row.shadow_class or "",
            kind=row.shadow_kind or "",
            differs=row.shadow_differs,
            num=row.num,
            example=row.example,
        )
        for row in session.execute(query)
    ]
    return sorted(found, key=lambda each: (not each.differs, -each.num, each.example))


def _tenants(session: Session, where: tuple[ColumnElement[bool], ...]) -> list[ShadowTenant]:
    num = func.count()
    query = (
        select(RequestRow.tenant, num.label("num"))
        .where(*where, RequestRow.shadow_differs.is_(True))
        .group_by(RequestRow.tenant)
        .order_by(num.desc(), RequestRow.tenant)
        .limit(_MOST_TENANTS)
    )
    return [
        ShadowTenant(name=row.tenant or "", num_differing=row.num) for row in session.execute(query)
    ]

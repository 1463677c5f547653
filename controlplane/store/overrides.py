"""Break-glass overrides: making one, ending one, and what is in force at an instant.

None is ever changed but for its end: to extend one, another is made. Each beginning and each end
is audited in the same transaction, also the end that comes by itself.
"""

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from controlplane.specs.document import StoredDocumentError
from controlplane.specs.kind import Kind
from controlplane.specs.names import parse_reference
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import DEFAULT_TENANT
from controlplane.store.audit import record_change
from controlplane.store.bounded_time import find_time_fault
from controlplane.store.deployments import DesiredDeployment, find_deployment
from controlplane.store.replicas import list_unended
from controlplane.store.revision import Revision, read_revision
from controlplane.store.revisions import find_latest, find_revision
from controlplane.store.tables import OverrideRow, RevisionRow
from dataplane.arm import Arm
from dataplane.clock import WallClock, wall_clock
from dataplane.policy import OverrideKind

_AT_ITS_TIME = "pilothouse"
"""The actor, in the audit, of an end that nobody asked for."""


class OverrideError(ValueError):
    """An override that cannot be made or ended; the message says why and what to do."""


class UnknownOverrideError(OverrideError):
    """No override has that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOverride:
    """What an operator asks for."""

    kind: OverrideKind
    deployment: str | None
    """None: of every one, also of those that come later; only a freeze may."""
    reason: str
    seconds: float
    policy: str | None = None
    """`name@number`."""
    replica_ids: tuple[str, ...] = ()
    request_class: str | None = None
    tenant: str | None = None
    arm: Arm | None = None
    may_be_longer: bool = False
    """It may last for more than a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOverride:
    """One override, in force or over."""

    override_id: str
    kind: OverrideKind
    deployment: str | None
    """None: a freeze of every one."""
    policy: Revision | None
    replica_ids: tuple[str, ...]
    request_class: str | None
    tenant: str | None
    arm: Arm | None
    reason: str
    created_by: str
    created_at_unix_ns: int
    until_unix_ns: int
    ended_at_unix_ns: int | None
    ended_by: str | None
    """None of one that is in force, or that ended at its time."""
    end_reason: str | None

    def is_in_force(self, at_unix_ns: int) -> bool:
        """Nobody ended it, and its time has not come."""
        return self.ended_at_unix_ns is None and at_unix_ns < self.until_unix_ns


def add_override(
    session: Session, wanted: NewOverride, *, actor: str, clock: WallClock = wall_clock
) -> StoredOverride:
    """Make one. Raises OverrideError for what nothing could enforce."""
    if not wanted.reason.strip():
        raise OverrideError("reason: say why, for everybody who sees it until it ends")
    fault = find_time_fault("an override", wanted.seconds, may_be_longer=wanted.may_be_longer)
    if fault is not None:
        raise OverrideError(fault)
    now = clock()
    _check_scope(session, wanted, now)
    row = OverrideRow(
        override_id=secrets.token_hex(4),
        kind=wanted.kind.value,
        deployment=wanted.deployment,
        policy_revision_id=_policy_id(session, wanted),
        replica_ids=list(wanted.replica_ids),
        request_class=wanted.request_class,
        tenant=wanted.tenant,
        arm=None if wanted.arm is None else wanted.arm.value,
        reason=wanted.reason,
        created_by=actor,
        created_at_unix_ns=now,
        until_unix_ns=now + int(wanted.seconds * 1e9),
    )
    session.add(row)
    session.flush()
    record_change(
        session, actor=actor, action="override.create", subject=_subject(row),
        reason=wanted.reason, before=None, after=_facts(session, row), clock=clock,
    )  # fmt: skip
    return _read(session, row)


def end_override(
    session: Session,
    override_id: str,
    *,
    actor: str,
    reason: str,
    clock: WallClock = wall_clock,
) -> StoredOverride:
    """End one before its time. Raises UnknownOverrideError, and OverrideError for one that is
    over."""
    row = session.get(OverrideRow, override_id)
    if row is None:
        raise UnknownOverrideError(f"there is no override {override_id!r}; see the list of them")
    now = clock()
    if not _read(session, row).is_in_force(now):
        raise OverrideError(f"override {override_id} is over already; nothing was changed")
    _end(session, row, at_unix_ns=now, actor=actor, reason=reason, clock=clock)
    row.ended_by = actor
    session.flush()
    return _read(session, row)


def end_what_is_over(session: Session, *, clock: WallClock = wall_clock) -> int:
    """Note the end of every override whose time has come; returns how many."""
    now = clock()
    over = session.scalars(
        select(OverrideRow)
        .where(OverrideRow.ended_at_unix_ns.is_(None), OverrideRow.until_unix_ns <= now)
        .order_by(OverrideRow.until_unix_ns)
    ).all()
    for row in over:
        _end(
            session, row, at_unix_ns=row.until_unix_ns, actor=_AT_ITS_TIME,
            reason="its time was over", clock=clock,
        )  # fmt: skip
    return len(over)


def has_what_is_over(session: Session, now_unix_ns: int) -> bool:
    """Some end has to be noted."""
    query = select(OverrideRow.override_id).where(
        OverrideRow.ended_at_unix_ns.is_(None), OverrideRow.until_unix_ns <= now_unix_ns
    )
    return session.scalars(query.limit(1)).first() is not None


def list_in_force(session: Session, now_unix_ns: int) -> list[StoredOverride]:
    """Those of that instant, the newest first."""
    rows = session.scalars(
        select(OverrideRow)
        .where(OverrideRow.ended_at_unix_ns.is_(None), OverrideRow.until_unix_ns > now_unix_ns)
        .order_by(OverrideRow.created_at_unix_ns.desc(), OverrideRow.override_id)
    )
    return [_read(session, row) for row in rows]


def list_overrides(
    session: Session, limit: int, deployment: str | None = None
) -> list[StoredOverride]:
    """All that ever were, the newest first."""
    query = select(OverrideRow)
    if deployment is not None:
        query = query.where(_is_about(deployment))
    query = query.order_by(OverrideRow.created_at_unix_ns.desc(), OverrideRow.override_id)
    return [_read(session, row) for row in session.scalars(query.limit(limit))]


def list_overrides_between(
    session: Session, start_unix_ns: int, end_unix_ns: int, deployment: str | None, limit: int
) -> list[StoredOverride]:
    """Those that were made or ended within, the newest first."""
    over_at = func.coalesce(OverrideRow.ended_at_unix_ns, OverrideRow.until_unix_ns)
    query = select(OverrideRow).where(
        or_(
            OverrideRow.created_at_unix_ns.between(start_unix_ns, end_unix_ns),
            over_at.between(start_unix_ns, end_unix_ns),
        )
    )
    if deployment is not None:
        query = query.where(_is_about(deployment))
    query = query.order_by(OverrideRow.created_at_unix_ns.desc(), OverrideRow.override_id)
    return [_read(session, row) for row in session.scalars(query.limit(limit))]


def _is_about(deployment: str) -> ColumnElement[bool]:
    return or_(OverrideRow.deployment == deployment, OverrideRow.deployment.is_(None))


def find_override(session: Session, override_id: str) -> StoredOverride | None:
    """One by its id, or None."""
    row = session.get(OverrideRow, override_id)
    return None if row is None else _read(session, row)


def _check_scope(session: Session, wanted: NewOverride, now_unix_ns: int) -> None:
    """It says what its kind needs, and nothing that its kind does not know."""
    _check_given(wanted)
    if wanted.deployment is None:
        if wanted.kind is not OverrideKind.FREEZE:
            raise OverrideError("deployment: name one; only a freeze may be of every one")
        return
    desired = find_deployment(session, wanted.deployment)
    if desired is None:
        raise OverrideError(f"there is no deployment {wanted.deployment!r}")
    match wanted.kind:
        case OverrideKind.PIN_REPLICAS:
            _check_replicas(session, wanted)
        case OverrideKind.BYPASS:
            _check_class(wanted, _enforced_policy(session, wanted, desired, now_unix_ns))
            _check_tenant(session, wanted.tenant)
        case OverrideKind.FORCE_ARM:
            _check_arm(wanted, desired)


def _check_given(wanted: NewOverride) -> None:
    given = {
        "policy": wanted.policy is not None,
        "replicas": bool(wanted.replica_ids),
        "request_class": wanted.request_class is not None,
        "tenant": wanted.tenant is not None,
        "arm": wanted.arm is not None,
    }
    takes = {
        OverrideKind.PIN_POLICY: {"policy"},
        OverrideKind.PIN_REPLICAS: {"replicas"},
        OverrideKind.BYPASS: {"request_class", "tenant"},
        OverrideKind.FORCE_ARM: {"arm"},
        OverrideKind.FREEZE: set(),
    }[wanted.kind]
    strange = [name for name, is_given in given.items() if is_given and name not in takes]
    if strange:
        raise OverrideError(f"{', '.join(strange)}: an override of kind {wanted.kind} has none")


def _check_arm(wanted: NewOverride, desired: DesiredDeployment) -> None:
    if wanted.arm is None:
        raise OverrideError(f"arm: say which, {' or '.join(Arm)}")
    if desired.rollout is None:
        raise OverrideError(
            f"deployment: no rollout of {wanted.deployment} is under way: it has one arm alone"
        )


def _check_replicas(session: Session, wanted: NewOverride) -> None:
    own = [
        e.spec.replica_id for e in list_unended(session) if e.spec.deployment == wanted.deployment
    ]
    if not wanted.replica_ids:
        raise OverrideError(f"replicas: name at least one of {', '.join(sorted(own)) or 'none'}")
    strange = sorted(set(wanted.replica_ids) - set(own))
    if strange:
        raise OverrideError(
            f"replicas: {', '.join(strange)} is no replica of {wanted.deployment} now; it has "
            f"{', '.join(sorted(own)) or 'none'}"
        )


def _enforced_policy(
    session: Session, wanted: NewOverride, desired: DesiredDeployment, now_unix_ns: int
) -> Revision:
    """The one that is pinned now, by the newest override that pins one; else the desired one."""
    pinned = (
        each.policy
        for each in list_in_force(session, now_unix_ns)
        if each.deployment == wanted.deployment and each.policy is not None
    )
    return next(pinned, desired.revisions.policy)


def _check_class(wanted: NewOverride, policy: Revision) -> None:
    names = [each.name for each in policy.spec(AdmissionPolicySpec).classes]
    if wanted.request_class is not None and wanted.request_class not in names:
        raise OverrideError(
            f"request_class: policy {policy.label}, which is enforced now, has no class "
            f"{wanted.request_class!r}; it has {', '.join(names)}"
        )


def _check_tenant(session: Session, tenant: str | None) -> None:
    if tenant in (None, DEFAULT_TENANT):
        return
    if find_latest(session, Kind.TENANT, str(tenant)) is None:
        raise OverrideError(f"tenant: there is no Tenant {tenant!r}; apply its document first")


def _policy_id(session: Session, wanted: NewOverride) -> int | None:
    if wanted.kind is not OverrideKind.PIN_POLICY:
        return None
    try:
        reference = parse_reference(wanted.policy or "")
    except ValueError as error:
        raise OverrideError(f"policy: {error}") from error
    if reference.number is None:
        raise OverrideError(f"policy: pin one revision of {reference.name}, as {reference.name}@3")
    found = find_revision(session, Kind.ADMISSION_POLICY, reference.name, reference.number)
    if found is None:
        raise OverrideError(
            f"policy: there is no AdmissionPolicy {reference}; see `pilothouse get revisions "
            f"policy {reference.name}`"
        )
    try:
        found.spec(AdmissionPolicySpec)
    except StoredDocumentError as error:
        raise OverrideError(f"policy: {reference} cannot be enforced: {error}") from error
    return found.id


def _end(
    session: Session,
    row: OverrideRow,
    *,
    at_unix_ns: int,
    actor: str,
    reason: str,
    clock: WallClock,
) -> None:
    before = _facts(session, row)
    row.ended_at_unix_ns, row.end_reason = at_unix_ns, reason
    session.flush()
    record_change(
        session, actor=actor, action="override.end", subject=_subject(row), reason=reason,
        before=before, after=None, clock=clock,
    )  # fmt: skip


def _subject(row: OverrideRow) -> str:
    return f"override/{row.override_id}"


def _facts(session: Session, row: OverrideRow) -> dict[str, Any]:
    """For the audit."""
    policy = _read(session, row).policy
    facts = {
        "kind": row.kind,
        "deployment": row.deployment,
        "policy": None if policy is None else policy.label,
        "replicas": row.replica_ids or None,
        "request_class": row.request_class,
        "tenant": row.tenant,
        "arm": row.arm,
        "until_unix_ns": row.until_unix_ns,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _read(session: Session, row: OverrideRow) -> StoredOverride:
    pinned = row.policy_revision_id
    revision = None if pinned is None else session.get_one(RevisionRow, pinned)
    return StoredOverride(
        override_id=row.override_id,
        kind=OverrideKind(row.kind),
        deployment=row.deployment,
        policy=None if revision is None else read_revision(revision),
        replica_ids=tuple(row.replica_ids),
        request_class=row.request_class,
        tenant=row.tenant,
        arm=None if row.arm is None else Arm(row.arm),
        reason=row.reason,
        created_by=row.created_by,
        created_at_unix_ns=row.created_at_unix_ns,
        until_unix_ns=row.until_unix_ns,
        ended_at_unix_ns=row.ended_at_unix_ns,
        ended_by=row.ended_by,
        end_reason=row.end_reason,
    )

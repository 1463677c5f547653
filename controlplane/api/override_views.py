"""Break-glass overrides as API, console and terminal show them. Pure conversions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataplane.admission.overrides import describe_effect
from dataplane.policy import OverrideKind
from dataplane.report import GatewayReport

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.store.overrides import StoredOverride


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideView:
    """One override."""

    override_id: str
    kind: str
    """pin_policy, pin_replicas, bypass, force_arm or freeze."""
    deployment: str | None
    """None: a freeze of every one."""
    effect: str
    """What it does, in words."""
    policy: str | None
    """`name@number` of a pinned policy."""
    replicas: list[str]
    """Of pinned replicas."""
    request_class: str | None
    """Of a bypass; None: every class."""
    tenant: str | None
    """Of a bypass; None: every tenant."""
    arm: str | None
    """Of a forced arm: stable or candidate."""
    reason: str
    created_by: str
    created_at_unix_ns: int
    until_unix_ns: int
    is_in_force: bool
    ended_at_unix_ns: int | None
    """None: it is in force."""
    ended_by: str | None
    """None where it is in force, or ended at its time."""
    end_reason: str | None
    gateways: list[str]
    """Those that say that they enforce it now."""
    missing_gateways: list[str]
    """Those that report, and do not say so of one that is in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideList:
    """Overrides, the newest first."""

    as_of_unix_ns: int
    overrides: list[OverrideView]


def view_override(
    stored: "StoredOverride", now_unix_ns: int, gateways: Sequence[GatewayReport]
) -> OverrideView:
    """`gateways`: the reports that are current."""
    is_in_force = stored.is_in_force(now_unix_ns)
    told = {
        report.name: stored.override_id in {each.override_id for each in report.overrides or ()}
        for report in gateways
        if not report.is_draining and stored.kind is not OverrideKind.FREEZE
    }
    ended_at = stored.ended_at_unix_ns
    return OverrideView(
        override_id=stored.override_id,
        kind=stored.kind.value,
        deployment=stored.deployment,
        effect=effect_of(stored),
        policy=None if stored.policy is None else stored.policy.label,
        replicas=list(stored.replica_ids),
        request_class=stored.request_class,
        tenant=stored.tenant,
        arm=stored.arm,
        reason=stored.reason,
        created_by=stored.created_by,
        created_at_unix_ns=stored.created_at_unix_ns,
        until_unix_ns=stored.until_unix_ns,
        is_in_force=is_in_force,
        ended_at_unix_ns=None if is_in_force else ended_at or stored.until_unix_ns,
        ended_by=stored.ended_by,
        end_reason=stored.end_reason,
        gateways=sorted(name for name, enforces in told.items() if enforces),
        missing_gateways=sorted(name for name, it in told.items() if not it and is_in_force),
    )


def effect_of(stored: "StoredOverride") -> str:
    """What it does, in words."""
    return describe_effect(
        stored.kind,
        policy=None if stored.policy is None else stored.policy.label,
        replica_ids=stored.replica_ids,
        request_class=stored.request_class,
        tenant=stored.tenant,
        arm=stored.arm,
    )

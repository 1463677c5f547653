"""Break-glass: what an operator's overrides make of a snapshot, for as long as they last. Pure.

An override travels in the snapshot, so that it holds while the control plane is away, and ends
on the gateway's own clock, so that it also ends then. It is applied to the snapshot as a whole
before anything reads it: whoever enforces a policy enforces a pinned one without knowing.

A bypass lifts whatever refuses, sheds, degrades or gives up a request. What only puts requests in
order stays: priorities, aging, weights, and how many a replica runs at once. Who waits and was let
in by a bypass must not be shed for others: its class leaves the order of shedding; where any class
may hold such a request, nobody who waits is shed.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from dataplane.arm import Arm
from dataplane.decision import AppliedOverride
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    Override,
    OverrideKind,
    QueueLimits,
    RolloutTerms,
    Snapshot,
)

_NO_BOUND = 2**31
"""Requests of a class that may wait where there is no limit: more than memory holds."""


def ends_of(
    overrides: Iterable[Override], known: Mapping[str, float], now: float, now_unix_ns: int
) -> dict[str, float]:
    """When each of them ends, by id, on the monotonic clock that `now` was read from.

    One that is `known` keeps its end. A new one lasts no longer than it was made for, however
    wrong the wall clock is here.
    """
    return {
        each.override_id: known.get(each.override_id, now + _seconds_left(each, now_unix_ns))
        for each in overrides
    }


def ended_by(ends: Mapping[str, float], now: float) -> frozenset[str]:
    """Ids of those whose time is over."""
    return frozenset(override_id for override_id, end in ends.items() if end <= now)


def in_force(snapshot: Snapshot, ended: Set[str] = frozenset()) -> Snapshot:
    """What is to be enforced: pins applied, and only the overrides that have not ended."""
    active = tuple(each for each in snapshot.overrides if each.override_id not in ended)
    deployments = tuple(_pinned(each, active) for each in snapshot.deployments)
    rollouts = tuple(
        replace(each, candidate=_pinned(each.candidate, active), share=_share(each, active))
        for each in snapshot.rollouts
    )
    return replace(snapshot, deployments=deployments, rollouts=rollouts, overrides=active)


def find_bypass(
    overrides: Iterable[Override], deployment: str, tenant: str, request_class: str
) -> Override | None:
    """The newest bypass that takes such a request, or None."""
    found = (
        each
        for each in overrides
        if each.kind is OverrideKind.BYPASS
        and each.deployment == deployment
        and each.tenant in (None, tenant)
        and each.request_class in (None, request_class)
    )
    return max(found, key=_age_order, default=None)


def find_pin(overrides: Iterable[Override], deployment: str, kind: OverrideKind) -> Override | None:
    """The newest pin of that kind on a deployment, or None."""
    found = (each for each in overrides if each.kind is kind and each.deployment == deployment)
    return max(found, key=_age_order, default=None)


def applied_to(
    overrides: Iterable[Override], deployment: str, tenant: str, request_class: str | None
) -> tuple[AppliedOverride, ...]:
    """What of them touches such a request; without a class, no bypass can have."""
    mine = [each for each in overrides if each.deployment == deployment]
    if not mine:
        return ()
    touching = [
        find_pin(mine, deployment, OverrideKind.PIN_POLICY),
        find_pin(mine, deployment, OverrideKind.PIN_REPLICAS),
        find_pin(mine, deployment, OverrideKind.FORCE_ARM),
        None if request_class is None else find_bypass(mine, deployment, tenant, request_class),
    ]
    return tuple(
        AppliedOverride(override_id=each.override_id, effect=effect_of(each))
        for each in touching
        if each is not None
    )


def effect_of(override: Override) -> str:
    """What it does, in words."""
    return describe_effect(
        override.kind,
        policy=None if override.policy is None else override.policy.revision,
        replica_ids=override.replica_ids,
        request_class=override.request_class,
        tenant=override.tenant,
        arm=override.arm,
    )


def describe_effect(
    kind: OverrideKind,
    *,
    policy: str | None,
    replica_ids: Sequence[str],
    request_class: str | None,
    tenant: str | None,
    arm: str | None,
) -> str:
    """The same words wherever an override is shown."""
    match kind:
        case OverrideKind.PIN_POLICY:
            return f"policy {policy or 'unknown'} is pinned"
        case OverrideKind.PIN_REPLICAS:
            return f"new requests go to {' and '.join(replica_ids)} alone"
        case OverrideKind.BYPASS:
            of = "" if request_class is None else f" for class {request_class}"
            by = "" if tenant is None else f" for tenant {tenant}"
            return f"limits are off{of}{by}"
        case OverrideKind.FORCE_ARM:
            return f"all requests go to the {arm} arm of its rollout"
        case OverrideKind.FREEZE:
            return "no rollout goes forward"


def without_limits(terms: AdmissionPolicyTerms) -> AdmissionPolicyTerms:
    """The same policy with nothing in it that keeps a request out or gives it up."""
    return replace(
        terms,
        classes=tuple(_without_limits(each) for each in terms.classes),
        max_prompt_tokens_in_flight=None,
        queue=QueueLimits(),
        kv=None,
        tenants={
            name: replace(limits, tokens_per_minute=None, max_concurrent=None)
            for name, limits in terms.tenants.items()
        },
        overload=None,
    )


def _without_limits(request_class: ClassPolicy) -> ClassPolicy:
    return replace(
        request_class, max_queue=_NO_BOUND, deadline_seconds=None, first_token_seconds=None
    )


def _pinned(deployment: DeploymentPolicy, active: tuple[Override, ...]) -> DeploymentPolicy:
    policy = find_pin(active, deployment.name, OverrideKind.PIN_POLICY)
    replicas = find_pin(active, deployment.name, OverrideKind.PIN_REPLICAS)
    terms = deployment.policy
    if policy is not None and policy.policy is not None:
        terms = policy.policy
    return replace(
        deployment,
        policy=_without_shedding(terms, deployment.name, active),
        pinned_replicas=None if replicas is None else replicas.replica_ids,
    )


def _share(rollout: RolloutTerms, active: tuple[Override, ...]) -> float:
    forced = find_pin(active, rollout.deployment, OverrideKind.FORCE_ARM)
    if forced is None:
        return rollout.share
    return 1.0 if forced.arm is Arm.CANDIDATE else 0.0


def _without_shedding(
    terms: AdmissionPolicyTerms, deployment: str, active: tuple[Override, ...]
) -> AdmissionPolicyTerms:
    """Nobody is shed whom a bypass has let in."""
    bypassed = {
        each.request_class
        for each in active
        if each.kind is OverrideKind.BYPASS and each.deployment == deployment
    }
    if terms.overload is None or not bypassed:
        return terms
    order = () if None in bypassed else terms.overload.shed
    shed = tuple(name for name in order if name not in bypassed)
    return replace(terms, overload=replace(terms.overload, shed=shed))


def _seconds_left(override: Override, now_unix_ns: int) -> float:
    whole = override.until_unix_ns - override.created_at_unix_ns
    return min(override.until_unix_ns - now_unix_ns, whole) / 1e9


def _age_order(override: Override) -> tuple[int, str]:
    return override.created_at_unix_ns, override.override_id

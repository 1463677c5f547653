"""The gateways' snapshot: built from what is desired and what is ready.

Policies, contracts and tenants are those that are desired, from this moment on. What is said of
a model is about the revision that runs: a newer one that cannot be started (its weights are
missing, its engine is not installed) must not take from the old one what it is served with.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog
from sqlalchemy.orm import Session

from controlplane.operator.desired import (
    desired_candidate,
    max_model_len,
    rollout_sizes,
)
from controlplane.operator.replica import Replica
from controlplane.operator.served_policies import (
    ReadyReplicas,
    ServedPolicies,
    endpoints,
    find_tokenizer,
)
from controlplane.rollouts.machine import is_in_shadow, share_of
from controlplane.specs.document import StoredDocumentError
from controlplane.specs.enforced import admission_terms, tenant_policy
from controlplane.specs.kind import Kind
from controlplane.specs.model import ModelSpec
from controlplane.specs.names import parse_reference
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec
from controlplane.store.access_keys import keys_in_use
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.overrides import StoredOverride
from controlplane.store.replicas import ReplicaState
from controlplane.store.revision_cache import read_revisions
from controlplane.store.revision_ids import find_ids
from controlplane.store.revisions import list_latest
from controlplane.store.rollouts import StoredRollout
from dataplane.access import AccessKey, Role
from dataplane.arm import Arm
from dataplane.policy import (
    AdmissionPolicyTerms,
    DeploymentPolicy,
    Override,
    OverrideKind,
    RolloutTerms,
    Snapshot,
    TenantPolicy,
    encode_snapshot,
)

_log = structlog.get_logger(__name__)


def read_tenants(session: Session) -> tuple[TenantPolicy, ...]:
    """The latest revision of every tenant."""
    return tuple(
        tenant_policy(revision.name, revision.spec(TenantSpec))
        for revision in list_latest(session, Kind.TENANT)
    )


def read_keys(session: Session) -> tuple[AccessKey, ...]:
    """What gateways must know: the keys of clients, and of who may read their state."""
    roles = (Role.CLIENT, Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.CONTROL_PLANE)
    return tuple(keys_in_use(session, roles))


def read_running_models(
    session: Session, deployments: Sequence[DesiredDeployment], replicas: Sequence[Replica]
) -> dict[str, ModelSpec]:
    """The models that ready replicas run and their deployments no longer ask for, by revision."""
    desired = {each.revisions.model.label for each in deployments}
    running = {each.spec.model_revision for each in replicas if each.state is ReplicaState.READY}
    if running <= desired:
        return {}
    ids = find_ids(session, {(Kind.MODEL, parse_reference(each)) for each in running - desired})
    found = read_revisions(session, set(ids.values()))
    return {each.label: each.spec(ModelSpec) for each in found.values()}


def build_snapshot(
    deployments: Sequence[DesiredDeployment],
    tenants: tuple[TenantPolicy, ...],
    keys: tuple[AccessKey, ...],
    replicas: Sequence[Replica],
    running_models: Mapping[str, ModelSpec],
    served: ServedPolicies,
    kept: Sequence[DeploymentPolicy] = (),
    overrides: Sequence[Override] = (),
) -> Snapshot:
    """What gateways should enforce now, without its number.

    `running_models`: see read_running_models. `kept`: what was last known of deployments that
    cannot be read any more; only their replicas are new. `overrides`: those in force; see
    enforced_overrides.
    """
    ready = ReadyReplicas(replicas)
    policies = [served.of(each, ready.of_stable_arm(each), running_models) for each in deployments]
    policies += [replace(each, replicas=endpoints(ready.of(each.name))) for each in kept]
    served.keep_only(each.name for each in policies)
    return Snapshot(
        version=0,
        deployments=tuple(sorted(policies, key=lambda policy: policy.name)),
        tenants=tenants,
        keys=keys,
        overrides=tuple(sorted(overrides, key=lambda each: each.override_id)),
        rollouts=tuple(
            rollout_terms(each, each.rollout, ready, served) for each in deployments if each.rollout
        ),
    )


def enforced_overrides(stored: Sequence[StoredOverride]) -> list[Override]:
    """As gateways enforce them. One whose pinned policy this version cannot read is left out:
    it must not keep the others, nor the whole snapshot, from being enforced."""
    found = []
    for each in stored:
        if each.kind is OverrideKind.FREEZE or each.deployment is None:
            continue
        try:
            found.append(_override(each, each.deployment))
        except StoredDocumentError as error:
            _log.error("override not enforced", override_id=each.override_id, error=str(error))
    return found


def _override(stored: StoredOverride, deployment: str) -> Override:
    return Override(
        override_id=stored.override_id,
        kind=stored.kind,
        deployment=deployment,
        reason=stored.reason,
        created_by=stored.created_by,
        created_at_unix_ns=stored.created_at_unix_ns,
        until_unix_ns=stored.until_unix_ns,
        policy=_pinned_terms(stored),
        replica_ids=stored.replica_ids,
        request_class=stored.request_class,
        tenant=stored.tenant,
        arm=stored.arm,
    )


def _pinned_terms(stored: StoredOverride) -> AdmissionPolicyTerms | None:
    if stored.policy is None:
        return None
    return admission_terms(stored.policy.label, stored.policy.spec(AdmissionPolicySpec))


def snapshot_digest(unnumbered: Snapshot) -> str:
    """SHA-256 of a snapshot without its number."""
    return hashlib.sha256(encode_snapshot(replace(unnumbered, version=0))).hexdigest()


def rollout_terms(
    desired: DesiredDeployment,
    rollout: StoredRollout,
    replicas: ReadyReplicas,
    served: ServedPolicies,
) -> RolloutTerms:
    """What gateways give to the candidate of a rollout. Its replicas are named before it gets any
    share, so that they are connected by then."""
    share = share_of(rollout.progress, rollout.strategy)
    stable = served.of(desired, replicas.of_stable_arm(desired), {})
    policy = rollout.candidate.policy
    candidate = replace(
        stable,
        arm=Arm.CANDIDATE,
        policy=admission_terms(policy.label, policy.spec(AdmissionPolicySpec)),
        replicas=(),
    )
    if rollout.has_own_replicas:
        ready = [each for each in replicas.of(desired.name) if each.rollout == rollout.number]
        share = rollout_sizes(desired, rollout).limit(share)
        candidate = _with_own_replicas(candidate, desired, rollout, ready)
    return RolloutTerms(
        number=rollout.number,
        share=share,
        candidate=candidate,
        sticky_header=rollout.spec.sticky_header,
        is_shadow=is_in_shadow(rollout.progress, rollout.strategy),
    )


def _with_own_replicas(
    candidate: DeploymentPolicy,
    desired: DesiredDeployment,
    rollout: StoredRollout,
    ready: Sequence[Replica],
) -> DeploymentPolicy:
    spec = desired_candidate(desired, rollout).template
    return replace(
        candidate,
        has_own_lane=True,
        model_revision=spec.model_revision,
        engine_config_revision=spec.engine_config_revision,
        tokenizer_artifact=find_tokenizer(rollout.candidate.model.spec(ModelSpec), spec),
        max_model_len=max_model_len(spec),
        replicas=endpoints(ready),
    )

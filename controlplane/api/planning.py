"""A change plan: what is stored and what runs, against what files say."""

from collections.abc import Iterable, Iterator, Sequence

from controlplane.api.plan_attempt import Attempt
from controlplane.api.plan_contract import HOUR_NS, replay_contracts
from controlplane.api.plan_drift import find_drift
from controlplane.api.plan_replicas import replica_impact
from controlplane.rollouts.change_plan.change_plan import ChangePlan, DeploymentPlan
from controlplane.rollouts.change_plan.contract_replay import ContractImpact
from controlplane.rollouts.change_plan.documents import (
    ChangedField,
    DocumentAction,
    PlannedDocument,
    changed_fields,
)
from controlplane.rollouts.change_plan.moves import EndedRollout, PlannedStep, moves_of
from controlplane.rollouts.change_plan.reclassed import PolicyChange
from controlplane.rollouts.change_plan.traffic import TrafficImpact, replay
from controlplane.specs.documents import Document
from controlplane.specs.enforced import admission_terms, tenant_policy
from controlplane.specs.kind import Kind
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec
from controlplane.store.contract_terms import FindTerms
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.recorded_traffic import read_recorded_traffic
from controlplane.store.revision import Revision
from controlplane.store.revisions import Applied, Change
from controlplane.store.rollout_entry import with_arm
from controlplane.store.stand import Stand
from dataplane.engine import EngineStats
from dataplane.policy import TenantPolicy

MAX_REPLAYED = 20_000
"""Of one deployment; the newest are replayed where there were more."""
_MAX_REPLAYED_TOGETHER = 100_000
"""Of all deployments, which share it: whoever asks waits for the answer."""
_MIN_REPLAYED = 500
_ACTIONS = {
    Change.CREATED: DocumentAction.CREATE,
    Change.UPDATED: DocumentAction.UPDATE,
    Change.UNCHANGED: DocumentAction.NOTHING,
}


def build_plan(
    attempt: Attempt,
    documents: Sequence[Document],
    stats: dict[str, EngineStats],
    request_db: Database,
    find_terms: FindTerms,
    now_unix_ns: int,
) -> ChangePlan:
    """`stats` are what replicas last told of themselves. `find_terms`: what was promised then."""
    planned = tuple(
        _document(each, applied, attempt.before)
        for each, applied in zip(documents, attempt.applied, strict=True)
    )
    return ChangePlan(
        created_at_unix_ns=now_unix_ns,
        world=attempt.world,
        documents=planned,
        deployments=tuple(
            _deployments(attempt, planned, stats, request_db, find_terms, now_unix_ns)
        ),
        drift=find_drift(attempt, list(documents)),
    )


def _document(document: Document, applied: Applied, before: Stand) -> PlannedDocument:
    latest = before.latest.get((document.kind, document.name))
    return PlannedDocument(
        kind=document.kind.value,
        name=document.name,
        action=_ACTIONS[applied.change],
        before=None if latest is None else latest.label,
        after=applied.label,
        digest=applied.digest,
        fields=changed_fields(None if latest is None else latest.document, document.canonical),
    )


def _deployments(
    attempt: Attempt,
    documents: Sequence[PlannedDocument],
    stats: dict[str, EngineStats],
    request_db: Database,
    find_terms: FindTerms,
    now_unix_ns: int,
) -> Iterator[DeploymentPlan]:
    changes_tenants = any(
        each.kind == Kind.TENANT and each.action is not DocumentAction.NOTHING for each in documents
    )
    concerned = [
        (attempt.before.deployments.get(name), after)
        for name, after in attempt.after.deployments.items()
        if changes_tenants or _moves(attempt.before.deployments.get(name), after)
    ]
    share = _MAX_REPLAYED_TOGETHER // max(1, len(concerned))
    limit = min(MAX_REPLAYED, max(_MIN_REPLAYED, share))
    for before, after in concerned:
        moves = _moves(before, after)
        change = _policy_change(attempt, before, after, changes_tenants)
        traffic = change and _replayed(change, request_db, now_unix_ns, limit)
        if moves or (traffic is not None and traffic.class_moves):
            contract = replay_contracts(before, after, find_terms, request_db, now_unix_ns, limit)
            yield _deployment(attempt, before, after, traffic, contract, stats)


def _moves(before: DesiredDeployment | None, after: DesiredDeployment) -> bool:
    return (
        before is None or before.generation != after.generation or _number(before) != _number(after)
    )


def _number(deployment: DesiredDeployment) -> int | None:
    return None if deployment.rollout is None else deployment.rollout.number


def _deployment(
    attempt: Attempt,
    before: DesiredDeployment | None,
    after: DesiredDeployment,
    traffic: TrafficImpact | None,
    contract: ContractImpact | None,
    stats: dict[str, EngineStats],
) -> DeploymentPlan:
    begins = _wanted(before, after)
    ended = attempt.ended.get(after.name)
    stands = _labels(after.revisions)
    return DeploymentPlan(
        deployment=after.name,
        is_new=before is None,
        moves=moves_of(
            dict.fromkeys(stands) if before is None else _labels(before.revisions),
            stands,
            _labels(begins),
        ),
        steps=_steps(after) if begins is not after.revisions else (),
        ends_rollout=None
        if ended is None
        else EndedRollout(
            number=ended.number,
            state=ended.progress.state.value,
            reason=ended.progress.reason,
        ),
        replicas=replica_impact(before, after, attempt.replicas, attempt.past_starts, stats),
        traffic=traffic,
        contract=contract,
    )


def _wanted(before: DesiredDeployment | None, after: DesiredDeployment) -> DesiredRevisions:
    """What it comes to when a rollout that would begin ends well; else what it is at once."""
    rollout = after.rollout
    if rollout is None or (before is not None and _number(before) == rollout.number):
        return after.revisions
    return with_arm(after.revisions, rollout.candidate)


def _steps(after: DesiredDeployment) -> tuple[PlannedStep, ...]:
    steps = () if after.rollout is None else after.rollout.strategy.steps
    return tuple(
        PlannedStep(
            share=each.share,
            seconds=each.seconds,
            waits_for_person=each.waits_for_person,
            is_shadow=each.is_shadow,
        )
        for each in steps
    )


def _labels(revisions: DesiredRevisions) -> dict[str, str | None]:
    contract = revisions.contract
    return {
        "deployment": revisions.deployment.label,
        "model": revisions.model.label,
        "engine": revisions.engine_config.label,
        "policy": revisions.policy.label,
        "contract": None if contract is None else contract.label,
    }


def _policy_change(
    attempt: Attempt,
    before: DesiredDeployment | None,
    after: DesiredDeployment,
    changes_tenants: bool,
) -> tuple[PolicyChange, tuple[ChangedField, ...]] | None:
    """Both policies and what differs between them; None: requests would be met as they are."""
    if before is None:
        return None
    old, new = before.revisions.policy, _wanted(before, after).policy
    if (old.name, old.number) == (new.name, new.number) and not changes_tenants:
        return None
    change = PolicyChange(
        deployment=after.name,
        before=admission_terms(old.label, old.spec(AdmissionPolicySpec)),
        after=admission_terms(new.label, new.spec(AdmissionPolicySpec)),
        tenants_before=_tenants(attempt.before.latest.values()),
        tenants_after=_tenants(attempt.after.latest.values()),
    )
    return change, changed_fields(old.document, new.document)


def _replayed(
    change: tuple[PolicyChange, tuple[ChangedField, ...]],
    request_db: Database,
    now_unix_ns: int,
    limit: int,
) -> TrafficImpact:
    policies, fields = change
    with request_db.reading() as session:
        traffic = read_recorded_traffic(
            session, policies.deployment, now_unix_ns - HOUR_NS, now_unix_ns, limit
        )
    return replay(policies, traffic, fields)


def _tenants(latest: Iterable[Revision]) -> dict[str, TenantPolicy]:
    return {
        each.name: tenant_policy(each.name, each.spec(TenantSpec))
        for each in latest
        if each.kind is Kind.TENANT
    }

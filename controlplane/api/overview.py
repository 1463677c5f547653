"""The overview: what should run, what does, and how the last half hour went.

What nobody reported is None, and what was reported too long ago is not taken for current.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.api.changes import STALE_SECONDS
from controlplane.api.incident_trouble import LateContract, trouble_of
from controlplane.api.incident_views import view_line
from controlplane.api.override_views import effect_of
from controlplane.api.trouble import (
    ENOUGH_JUDGED,
    DeploymentFacts,
    GatewayFacts,
    OverrideFacts,
    Trouble,
    find_trouble,
)
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.specs.contract import SLOContractSpec
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.incident_lists import list_incidents
from controlplane.store.incidents import IncidentState
from controlplane.store.overrides import StoredOverride
from controlplane.store.replicas import ReplicaTransition, find_last_failure, list_transitions
from controlplane.store.requests import count_since, num_records_lost, ttft_quantile
from controlplane.store.revision import Revision
from dataplane.clock import wall_clock
from dataplane.engine import EngineStats
from dataplane.policy import OverrideKind
from dataplane.report import GatewayReport

router = APIRouter(prefix="/api/v1", tags=["overview"])

WINDOW_SECONDS = 1800
_HURT_SECONDS = 300
"""How far back it is looked whether an incident hurts callers now."""
_MEASURES = ("offered", "in_contract.good", "in_contract.total", "disposition.invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOverview:
    """One line of the overview."""

    name: str
    model_revision: str
    engine: str
    policy_revision: str
    contract_revision: str | None
    generation: int
    observed_generation: int
    num_desired_replicas: int
    num_ready_replicas: int
    num_seen_replicas: int
    """Ready, starting or draining."""
    offered_per_s: float | None
    goodput_per_s: float | None
    attainment: float | None
    """In-contract share of what was offered, malformed requests aside; None: nothing judged."""
    num_offered: int
    num_asked: int
    """Offered, malformed requests aside."""
    num_judged: int
    num_good: int
    """In contract, of those that were judged."""
    kept_share: float | None
    """In-contract share of what was judged; None: fewer than 20 were."""
    promised_share: float | None
    """The lowest share that the contract promises to any class."""
    ttft_p95_seconds: float | None
    kv_used_share: float | None
    """Referenced blocks of all blocks, over the replicas that say so."""
    signal_age_seconds: float | None
    """Of the engine figures."""
    troubles: list[Trouble]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOverview:
    """One gateway."""

    name: str
    address: str
    is_draining: bool
    """Another process has its place; it finishes what it has."""
    age_seconds: float
    is_current: bool
    snapshot_version: int
    snapshot_error: str | None
    num_active: int
    num_queued: int
    oldest_queued_seconds: float | None
    """Over all its deployments, 0 when nobody waits; None: its report is not current."""
    num_records_spooled: int
    num_records_lost: int
    refused_because: str | None
    """Why its calls are refused, of one whose report is not current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOverview:
    """One replica."""

    replica_id: str
    deployment: str
    engine: str
    state: str
    stage: str | None
    reason: str
    age_seconds: float
    probed_age_seconds: float | None
    num_running: int | None
    num_waiting: int | None
    max_num_seqs: int | None
    kv_used_share: float | None
    stats_age_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything at a glance."""

    as_of_unix_ns: int
    window_seconds: float
    """That the rates are over."""
    since_unix_ns: int | None
    """When the replicas last changed: how long it has been as it is."""
    troubles: list[Trouble]
    """All of them, the worst first."""
    deployments: list[DeploymentOverview]
    gateways: list[GatewayOverview]
    replicas: list[ReplicaOverview]
    num_records_lost: int


@router.get("/overview")
def get_overview(request: Request) -> Overview:
    """What should run, what does, what is wrong, and the last 30 minutes of each deployment."""
    state = request.app.state
    return read_overview(state.config_db, state.request_db, state.observed, wall_clock())


def read_overview(
    config_db: Database, request_db: Database, observed: ObservedState, now_unix_ns: int
) -> Overview:
    """Put together what the databases hold and what was last observed."""
    window_start = now_unix_ns // 10**9 - WINDOW_SECONDS
    window_start -= window_start % 60
    window_seconds = now_unix_ns / 1e9 - window_start
    gateways, replicas = observed.gateways(), observed.replicas()
    stats = newest_stats(gateways)
    refused = {name: refusal.why for name, refusal in observed.refusals().items()}
    with config_db.reading() as session:
        desired, unreadable = list_readable_deployments(session)
        since = _last_change(session, {replica.replica_id for replica in replicas})
        failures = {d.name: find_last_failure(session, d.name) for d in desired}
        incidents = list_incidents(session, state=IncidentState.OPEN, limit=None)
    with request_db.reading() as session:
        counts = count_since(session, window_start, _MEASURES)
        late = _late_counts(session, now_unix_ns) if incidents else {}
        num_lost = num_records_lost(session)
        ttft = {d.name: ttft_quantile(session, d.name, window_start * 10**9, 0.95) for d in desired}
    lines = [
        _deployment(
            each,
            [replica for replica in replicas if replica.deployment == each.name],
            stats,
            counts.get(each.name, {}),
            ttft[each.name],
            window_seconds,
        )
        for each in desired
    ]
    troubles = find_trouble(
        [_facts(line, replicas, failures[line.name]) for line in lines],
        [_gateway_facts(report, age, refused) for report, age in gateways],
        request_db.room.refusal,
        unreadable,
        {name: why for name, why in refused.items() if not observed.knows_gateway(name)},
        [_override_facts(each, replicas) for each in observed.overrides()],
        [
            trouble_of(view_line(each), _late_contract(each.deployment, lines, late))
            for each in incidents
        ],
    )
    return Overview(
        as_of_unix_ns=now_unix_ns,
        window_seconds=window_seconds,
        since_unix_ns=since,
        troubles=troubles,
        deployments=[_with_troubles(line, troubles) for line in lines],
        gateways=[_gateway(report, age, refused) for report, age in gateways],
        replicas=[_replica(replica, stats, now_unix_ns) for replica in replicas],
        num_records_lost=num_lost,
    )


def _late_counts(session: Session, now_unix_ns: int) -> dict[str, dict[str, int]]:
    since = now_unix_ns // 10**9 - _HURT_SECONDS
    return count_since(session, since - since % 60, ("in_contract.good", "in_contract.total"))


def _late_contract(
    deployment: str, lines: list[DeploymentOverview], late: dict[str, dict[str, int]]
) -> LateContract:
    counts = late.get(deployment, {})
    promised = (line.promised_share for line in lines if line.name == deployment)
    return LateContract(
        num_good=counts.get("in_contract.good", 0),
        num_judged=counts.get("in_contract.total", 0),
        promised_share=next(promised, None),
    )


def troubles_of(state: State, deployment: str, now_unix_ns: int) -> list[Trouble]:
    """What is wrong with one deployment right now, the worst first."""
    view = read_overview(state.config_db, state.request_db, state.observed, now_unix_ns)
    return [trouble for trouble in view.troubles if trouble.deployment in (deployment, None)]


def _last_change(session: Session, replica_ids: set[str]) -> int | None:
    transitions = list_transitions(session, limit=200)
    return next((t.at_unix_ns for t in transitions if t.replica_id in replica_ids), None)


def newest_stats(
    gateways: list[tuple[GatewayReport, float]],
) -> dict[str, tuple[EngineStats, float]]:
    """The freshest current figures of every replica, with their age in seconds."""
    newest: dict[str, tuple[EngineStats, float]] = {}
    for report, age in gateways:
        for replica in report.replicas:
            if replica.stats is None:
                continue
            total_age = age + replica.stats.age_seconds
            known = newest.get(replica.replica_id)
            if total_age < STALE_SECONDS and (known is None or total_age < known[1]):
                newest[replica.replica_id] = (replica.stats, total_age)
    return newest


def _deployment(
    desired: DesiredDeployment,
    replicas: list[ObservedReplica],
    stats: dict[str, tuple[EngineStats, float]],
    counts: dict[str, int],
    ttft_p95: float | None,
    window_seconds: float,
) -> DeploymentOverview:
    own = [stats[replica.replica_id] for replica in replicas if replica.replica_id in stats]
    offered = counts.get("offered", 0)
    asked = offered - counts.get("disposition.invalid", 0)
    judged = counts.get("in_contract.total", 0)
    is_judged = judged > 0
    good = counts.get("in_contract.good", 0)
    revisions = desired.revisions
    return DeploymentOverview(
        name=desired.name,
        model_revision=revisions.model.label,
        engine=replicas[0].engine if replicas else revisions.engine_config.label,
        policy_revision=revisions.policy.label,
        contract_revision=revisions.contract.label if revisions.contract else None,
        generation=desired.generation,
        observed_generation=desired.observed_generation,
        num_desired_replicas=desired.spec.replicas,
        num_ready_replicas=sum(replica.state == "ready" for replica in replicas),
        num_seen_replicas=sum(
            replica.state in ("ready", "unreachable", "starting", "draining")
            for replica in replicas
        ),
        offered_per_s=offered / window_seconds,
        goodput_per_s=good / window_seconds if is_judged else None,
        attainment=good / asked if is_judged and asked > 0 else None,
        num_offered=offered,
        num_asked=asked,
        num_judged=judged,
        num_good=good,
        kept_share=good / judged if judged >= ENOUGH_JUDGED else None,
        promised_share=_promised(revisions.contract),
        ttft_p95_seconds=ttft_p95,
        kv_used_share=_kv_used([each for each, _ in own]),
        signal_age_seconds=max((age for _, age in own), default=None),
        troubles=[],
    )


def _promised(contract: Revision | None) -> float | None:
    """The loosest promise of any class: what falls below it is trouble whatever the mix was."""
    if contract is None:
        return None
    classes = contract.spec(SLOContractSpec).classes.values()
    targets = [
        each.together.target if each.together else min(o.target for o in each.objectives)
        for each in classes
    ]
    return min(targets, default=None)


def _kv_used(stats: list[EngineStats]) -> float | None:
    told = [
        (each.num_referenced_blocks, each.num_blocks)
        for each in stats
        if each.num_referenced_blocks is not None and each.num_blocks
    ]
    if not told:
        return None
    return sum(used for used, _ in told) / sum(blocks for _, blocks in told)


def _facts(
    line: DeploymentOverview,
    replicas: list[ObservedReplica],
    last_failure: ReplicaTransition | None,
) -> DeploymentFacts:
    own = [replica for replica in replicas if replica.deployment == line.name]
    starting = [replica for replica in own if replica.state == "starting"]
    return DeploymentFacts(
        name=line.name,
        num_desired=line.num_desired_replicas,
        num_ready=line.num_ready_replicas,
        failed_because=None if last_failure is None else last_failure.reason,
        starting_stage=(starting[0].stage or "starting") if starting else None,
        kept_share=line.kept_share,
        promised_share=line.promised_share,
        num_asked=line.num_asked,
        num_judged=line.num_judged,
        num_good=line.num_good,
    )


def _gateway_facts(report: GatewayReport, age: float, refused: Mapping[str, str]) -> GatewayFacts:
    return GatewayFacts(
        name=report.name,
        age_seconds=age,
        is_current=age < STALE_SECONDS,
        snapshot_error=report.snapshot_error,
        num_records_lost=report.num_records_lost,
        refused_because=refused.get(report.name),
    )


def _override_facts(override: StoredOverride, replicas: list[ObservedReplica]) -> OverrideFacts:
    ready = {replica.replica_id for replica in replicas if replica.state == "ready"}
    is_pin = override.kind is OverrideKind.PIN_REPLICAS
    return OverrideFacts(
        override_id=override.override_id,
        deployment=override.deployment,
        effect=effect_of(override),
        created_by=override.created_by,
        reason=override.reason,
        until_unix_ns=override.until_unix_ns,
        lacks_replicas=is_pin and ready.isdisjoint(override.replica_ids),
    )


def _with_troubles(line: DeploymentOverview, troubles: list[Trouble]) -> DeploymentOverview:
    line.troubles.extend(trouble for trouble in troubles if trouble.deployment == line.name)
    return line


def _gateway(report: GatewayReport, age: float, refused: Mapping[str, str]) -> GatewayOverview:
    return GatewayOverview(
        name=report.name,
        address=report.address,
        is_draining=report.is_draining,
        age_seconds=age,
        is_current=age < STALE_SECONDS,
        snapshot_version=report.snapshot_version,
        snapshot_error=report.snapshot_error,
        num_active=report.counts.active,
        num_queued=report.num_queued,
        oldest_queued_seconds=(report.oldest_queued_seconds or 0.0)
        if age < STALE_SECONDS
        else None,
        num_records_spooled=report.num_records_spooled,
        num_records_lost=report.num_records_lost,
        refused_because=refused.get(report.name) if age >= STALE_SECONDS else None,
    )


def _replica(
    replica: ObservedReplica, stats: dict[str, tuple[EngineStats, float]], now_unix_ns: int
) -> ReplicaOverview:
    told, age = stats.get(replica.replica_id, (None, None))
    probed = replica.probed_at_unix_ns
    return ReplicaOverview(
        replica_id=replica.replica_id,
        deployment=replica.deployment,
        engine=replica.engine,
        state=replica.state,
        stage=replica.stage,
        reason=replica.reason,
        age_seconds=max(0.0, (now_unix_ns - replica.observed_at_unix_ns) / 1e9),
        probed_age_seconds=None if probed is None else max(0.0, (now_unix_ns - probed) / 1e9),
        num_running=None if told is None else told.num_running,
        num_waiting=None if told is None else told.num_waiting,
        max_num_seqs=None if told is None else told.max_num_seqs,
        kv_used_share=None if told is None else _kv_used([told]),
        stats_age_seconds=age,
    )

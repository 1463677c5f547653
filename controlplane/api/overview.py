"""The overview: what should run, what does, what is wrong, and how the last half hour went."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.api.changes import STALE_SECONDS
from controlplane.api.engine_figures import newest_stats
from controlplane.api.incident_trouble import LateContract, trouble_of
from controlplane.api.incident_views import view_line
from controlplane.api.override_views import effect_of
from controlplane.api.overview_lines import (
    DeploymentOverview,
    GatewayOverview,
    ReplicaOverview,
    deployment_line,
    gateway_line,
    replica_line,
)
from controlplane.api.trouble import (
    DeploymentFacts,
    GatewayFacts,
    OverrideFacts,
    Trouble,
    find_trouble,
)
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.store.database import Database
from controlplane.store.deployments import list_readable_deployments
from controlplane.store.incident_lists import list_incidents
from controlplane.store.incidents import IncidentState
from controlplane.store.overrides import StoredOverride
from controlplane.store.replicas import ReplicaTransition, find_last_failure, list_transitions
from controlplane.store.requests import count_since, num_records_lost, ttft_quantile
from dataplane.clock import wall_clock
from dataplane.policy import OverrideKind
from dataplane.report import GatewayReport

router = APIRouter(prefix="/api/v1", tags=["overview"])

WINDOW_SECONDS = 1800
_HURT_SECONDS = 300
"""How far back it is looked whether an incident hurts callers now."""
_MEASURES = ("offered", "in_contract.good", "in_contract.total", "disposition.invalid")


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
        deployment_line(
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
        gateways=[gateway_line(report, age, refused) for report, age in gateways],
        replicas=[replica_line(replica, stats, now_unix_ns) for replica in replicas],
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

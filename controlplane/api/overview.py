"""The overview: what should run, what does, what is wrong, and how the last half hour went."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fastapi import APIRouter, Request
from starlette.datastructures import State

from controlplane.api.alert_views import HeardView, view_heard
from controlplane.api.changes import STALE_SECONDS
from controlplane.api.deployment_state import StateFacts, state_of
from controlplane.api.engine_figures import newest_stats, with_pages
from controlplane.api.incident_trouble import LateContract, trouble_of
from controlplane.api.incident_views import IncidentLine
from controlplane.api.late_counts import LateCounts
from controlplane.api.late_trouble import late_troubles
from controlplane.api.override_views import effect_of
from controlplane.api.overview_lines import (
    DeploymentOverview,
    GatewayOverview,
    ReplicaOverview,
    deployment_line,
    gateway_line,
    replica_line,
)
from controlplane.api.silent_alerting import silent_troubles
from controlplane.api.stored_overview import StoredConfig, StoredPast, read_config, read_past
from controlplane.api.trouble import (
    DeploymentFacts,
    GatewayFacts,
    OverrideFacts,
    Trouble,
    find_trouble,
)
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.store.database import Database
from controlplane.store.overrides import StoredOverride
from dataplane.clock import wall_clock
from dataplane.engine import EngineStats
from dataplane.policy import OverrideKind
from dataplane.report import GatewayReport

router = APIRouter(prefix="/api/v1", tags=["overview"])


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
    seen = _see(observed, now_unix_ns)
    config = read_config(config_db, seen.replicas)
    past = read_past(request_db, config.desired, now_unix_ns)
    lines = _lines(seen, config, past)
    heard = [view_heard(each, now_unix_ns) for each in config.heard]
    troubles = _troubles(seen, config, past, lines, request_db.room.refusal, heard)
    is_reported = any(age < STALE_SECONDS for _, age in seen.gateways)
    return Overview(
        as_of_unix_ns=now_unix_ns,
        window_seconds=past.window_seconds,
        since_unix_ns=config.changed_at_unix_ns,
        troubles=troubles,
        deployments=[
            _judged(line, troubles, config.incidents, past, is_reported=is_reported)
            for line in lines
        ],
        gateways=[gateway_line(report, age, seen.refused) for report, age in seen.gateways],
        replicas=[replica_line(each, seen.stats, now_unix_ns) for each in seen.replicas],
        num_records_lost=past.num_records_lost,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was last observed."""

    gateways: list[tuple[GatewayReport, float]]
    """Each with the age of its report, in seconds."""
    replicas: list[ObservedReplica]
    stats: dict[str, tuple[EngineStats, float]]
    """By replica, with their age."""
    refused: Mapping[str, str]
    """Why a gateway's calls are refused, by its name."""
    unheard: Mapping[str, str]
    """Those of them that never reported."""
    overrides: list[StoredOverride]


def _see(observed: ObservedState, now_unix_ns: int) -> _Seen:
    gateways, replicas = observed.gateways(), observed.replicas()
    refused = {name: refusal.why for name, refusal in observed.refusals().items()}
    return _Seen(
        gateways=gateways,
        replicas=replicas,
        stats=with_pages(newest_stats(gateways), replicas, now_unix_ns),
        refused=refused,
        unheard={n: why for n, why in refused.items() if not observed.knows_gateway(n)},
        overrides=observed.overrides(),
    )


def _lines(seen: _Seen, config: StoredConfig, past: StoredPast) -> list[DeploymentOverview]:
    return [
        deployment_line(
            each,
            [replica for replica in seen.replicas if replica.deployment == each.name],
            seen.stats,
            past.counts.get(each.name, {}),
            past.ttft_p95[each.name],
            past.window_seconds,
        )
        for each in config.desired
    ]


def _troubles(
    seen: _Seen,
    config: StoredConfig,
    past: StoredPast,
    lines: list[DeploymentOverview],
    request_data_refusal: str | None,
    heard: list[HeardView],
) -> list[Trouble]:
    found_lately = _found_lately(lines, past.late)
    return find_trouble(
        [_facts(line, seen.replicas, config, found_lately) for line in lines],
        [_gateway_facts(report, age, seen.refused) for report, age in seen.gateways],
        request_data_refusal,
        config.unreadable,
        seen.unheard,
        [_override_facts(each, seen.replicas) for each in seen.overrides],
        [
            *(
                trouble_of(each, _late_contract(each.deployment, lines, past.late))
                for each in config.incidents
            ),
            *found_lately,
            *silent_troubles(heard),
        ],
    )


def _found_lately(lines: list[DeploymentOverview], late: Mapping[str, LateCounts]) -> list[Trouble]:
    return [
        trouble
        for line in lines
        for trouble in late_troubles(line.name, _late_of(line, late), line.promised_share)
    ]


def _late_of(line: DeploymentOverview, late: Mapping[str, LateCounts]) -> LateCounts:
    return late.get(line.name, LateCounts())


def _late_contract(
    deployment: str | None, lines: list[DeploymentOverview], late: Mapping[str, LateCounts]
) -> LateContract | None:
    if deployment is None:
        return None
    counts = late.get(deployment, LateCounts())
    promised = (line.promised_share for line in lines if line.name == deployment)
    return LateContract(
        num_good=counts.num_good,
        num_judged=counts.num_judged,
        promised_share=next(promised, None),
    )


def troubles_of(state: State, deployment: str, now_unix_ns: int) -> list[Trouble]:
    """What is wrong with one deployment right now, the worst first."""
    view = read_overview(state.config_db, state.request_db, state.observed, now_unix_ns)
    return [trouble for trouble in view.troubles if trouble.deployment in (deployment, None)]


def _facts(
    line: DeploymentOverview,
    replicas: list[ObservedReplica],
    config: StoredConfig,
    found_lately: list[Trouble],
) -> DeploymentFacts:
    """What the last minutes say of its contract goes before what the half hour does."""
    last_failure, loss = config.failures[line.name], config.losses.get(line.name)
    is_told = any(t.deployment == line.name and t.about == "in_contract" for t in found_lately)
    own = [replica for replica in replicas if replica.deployment == line.name]
    starting = [replica for replica in own if replica.state == "starting"]
    lost = [replica for replica in own if replica.state == "unreachable"]
    return DeploymentFacts(
        name=line.name,
        num_desired=line.num_desired_replicas,
        num_ready=line.num_ready_replicas,
        failed_because=None if last_failure is None else last_failure.reason,
        # Frozen first and killed then: why it is lost is what is so now.
        lost_because=None if loss is None else (lost[0] if lost else loss).reason,
        lost_at_unix_ns=None if loss is None else loss.at_unix_ns,
        is_observed_only=line.is_observed_only,
        starting_stage=(starting[0].stage or "starting") if starting else None,
        kept_share=line.kept_share,
        promised_share=None if is_told else line.promised_share,
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


def _judged(
    line: DeploymentOverview,
    troubles: list[Trouble],
    incidents: list[IncidentLine],
    past: StoredPast,
    *,
    is_reported: bool,
) -> DeploymentOverview:
    """With what is wrong with it, and its state."""
    own = [trouble for trouble in troubles if trouble.deployment == line.name]
    facts = StateFacts(
        num_ready=line.num_ready_replicas,
        num_desired=line.num_desired_replicas,
        incidents=[each.title for each in incidents if each.deployment == line.name],
        promised_share=line.promised_share,
        half_hour=LateCounts(
            window_seconds=past.window_seconds, num_judged=line.num_judged, num_good=line.num_good
        ),
        is_reported=is_reported,
        is_observed_only=line.is_observed_only,
    )
    return replace(line, troubles=own, state=state_of(facts, _late_of(line, past.late), own))

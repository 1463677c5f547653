"""Deployments: the list, and each whole: what runs, since when, why, how it keeps its contract.

With `at`, what a deployment was at an instant: the exact revisions that were desired and the
replicas that were there. What only the present knows (memory, holds, troubles) is left out.
"""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.api.changes import STALE_SECONDS
from controlplane.api.deployment_views import (
    DeploymentDetail,
    DeploymentLine,
    DeploymentList,
    LaneView,
    view_history,
    view_lane,
    view_load,
    view_revisions,
)
from controlplane.api.engine_figures import newest_stats, with_pages
from controlplane.api.overview import troubles_of
from controlplane.api.request_query import QueryError, parse_instant
from controlplane.api.series import DEFAULT_RANGE, SeriesError, seconds_of
from controlplane.api.slo_counts import SloCount, slo_counts
from controlplane.operator.observed import ObservedState
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.deployment import DeploymentSpec
from controlplane.store.database import Database
from controlplane.store.deployments import (
    DeploymentChange,
    DesiredDeployment,
    find_deployment,
    list_changes,
    list_readable_deployments,
)
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.replica_lanes import ReplicaLane, list_lanes
from controlplane.store.series import count_by_class
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["deployments"])

MAX_CHANGES = 50
MAX_LANES = 24
_SLO_SECONDS = 3600


class DeploymentNotFoundError(LookupError):
    """There is no such deployment, or there was none yet at the instant asked for."""


@router.get("/deployments")
def get_deployments(request: Request) -> DeploymentList:
    """Every deployment: desired, how far it was brought about, its replicas, its last change."""
    return read_deployments(request.app.state, wall_clock())


@router.get("/deployments/{name}")
def get_deployment(
    name: str,
    request: Request,
    at: str | None = None,
    span: Annotated[str, Query(alias="range")] = DEFAULT_RANGE,
) -> DeploymentDetail:
    """One deployment, now or `at` an instant: 02:14, an age such as 30m, or an ISO 8601 time.

    `range` (15m, 1h, 6h, 1d or 7d) is how much of its replicas' history comes along.
    """
    now = wall_clock()
    try:
        at_unix_ns = parse_instant("at", at, now) if at else None
        return read_deployment(request.app.state, name, now, span, at_unix_ns)
    except DeploymentNotFoundError as error:
        raise HTTPException(404, str(error)) from error
    except (QueryError, SeriesError) as error:
        raise HTTPException(422, str(error)) from error


def read_deployments(state: State, now_unix_ns: int) -> DeploymentList:
    """From the config database and what the operator last saw."""
    with state.config_db.reading() as session:
        # The overview names those that cannot be read.
        readable, _ = list_readable_deployments(session)
        found = [(each, list_changes(session, each.name, limit=2)) for each in readable]
    return DeploymentList(
        as_of_unix_ns=now_unix_ns,
        deployments=[
            _line(each, history, state.observed, holds_of(state), state.operator.retries)
            for each, history in found
        ],
        strays=state.observed.strays(),
        strays_unseen=state.observed.strays_unseen(),
    )


def read_deployment(
    state: State, name: str, now_unix_ns: int, range_: str, at_unix_ns: int | None = None
) -> DeploymentDetail:
    """Raises DeploymentNotFoundError, and SeriesError for a range nobody offers."""
    seconds = seconds_of(range_)
    config_db: Database = state.config_db
    end = _end(now_unix_ns, seconds, at_unix_ns)
    start = end - seconds * 10**9
    with config_db.reading() as session:
        desired = find_deployment(session, name)
        if desired is None:
            raise DeploymentNotFoundError(f"there is no deployment {name[:128]}")
        history = _history(session, name, at_unix_ns)
        lanes = list_lanes(session, name, start, end, MAX_LANES + 1)
    moment = now_unix_ns if at_unix_ns is None else at_unix_ns
    revisions = history[0].revisions
    views = _lanes(lanes[:MAX_LANES], state.observed, moment, is_past=at_unix_ns is not None)
    since_unix = moment // 10**9 - _SLO_SECONDS
    since_unix -= since_unix % 60
    entries = view_history(history)
    return DeploymentDetail(
        as_of_unix_ns=now_unix_ns,
        at_unix_ns=at_unix_ns,
        name=name,
        launcher=revisions.deployment.spec(DeploymentSpec).launcher,
        num_replicas=revisions.deployment.spec(DeploymentSpec).replicas,
        num_ready=sum(lane.state == "ready" for lane in views),
        generation=history[0].generation,
        observed_generation=None if at_unix_ns is not None else desired.observed_generation,
        hold=None if at_unix_ns is not None else holds_of(state).get(name),
        retry_at_unix_ns=None if at_unix_ns is not None else state.operator.retries.get(name),
        troubles=[] if at_unix_ns is not None else troubles_of(state, name, now_unix_ns),
        change=entries[0],
        revisions=view_revisions(revisions, history),
        start_unix_ns=start,
        end_unix_ns=end,
        range=range_,
        lanes=views,
        has_more_lanes=len(lanes) > MAX_LANES,
        changes=entries[:MAX_CHANGES],
        slo=_slo(state.request_db, name, revisions, since_unix, moment // 10**9),
        slo_since_unix_ns=since_unix * 10**9,
    )


def holds_of(state: State) -> Mapping[str, str]:
    """Deployments that lack replicas and get none now, with the reason."""
    holds: Mapping[str, str] = state.operator.holds
    return holds


def _end(now_unix_ns: int, seconds: int, at_unix_ns: int | None) -> int:
    """With an instant, it lies in the middle of what is shown, as far as there is a future."""
    if at_unix_ns is None:
        return now_unix_ns
    return min(now_unix_ns, at_unix_ns + seconds * 10**9 // 2)


def _history(session: Session, name: str, at_unix_ns: int | None) -> list[DeploymentChange]:
    """Newest first; one more than is shown, so that the last of those has something before it."""
    history = list_changes(session, name, MAX_CHANGES + 1, until_unix_ns=at_unix_ns)
    if not history:
        raise DeploymentNotFoundError(f"deployment {name} did not exist yet at that instant")
    return history


def _line(
    desired: DesiredDeployment,
    history: list[DeploymentChange],
    observed: ObservedState,
    holds: Mapping[str, str],
    retries: Mapping[str, int],
) -> DeploymentLine:
    revisions = desired.revisions
    replicas = [each for each in observed.replicas() if each.deployment == desired.name]
    return DeploymentLine(
        name=desired.name,
        model=revisions.model.name,
        generation=desired.generation,
        observed_generation=desired.observed_generation,
        num_replicas=desired.spec.replicas,
        num_ready=sum(replica.state == "ready" for replica in replicas),
        hold=holds.get(desired.name),
        retry_at_unix_ns=retries.get(desired.name),
        launcher=desired.spec.launcher,
        revisions={
            "deployment": revisions.deployment.label,
            "model": revisions.model.label,
            "engine_config": revisions.engine_config.label,
            "policy": revisions.policy.label,
            "contract": revisions.contract.label if revisions.contract else None,
        },
        updated_at_unix_ns=desired.updated_at_unix_ns,
        replicas=replicas,
        last_change=view_history(history)[0] if history else None,
    )


def _lanes(
    lanes: list[ReplicaLane], observed: ObservedState, moment_unix_ns: int, is_past: bool
) -> list[LaneView]:
    gateways = observed.gateways()
    reports = [report for report, age in gateways if age < STALE_SECONDS]
    replicas = observed.replicas()
    stats = with_pages(newest_stats(gateways), replicas, wall_clock())
    seen = {replica.replica_id: replica for replica in replicas}
    views = []
    for lane in lanes:
        at = lane.at(moment_unix_ns)
        if at is None:
            continue
        load = None if is_past else view_load(lane.replica_id, reports, stats.get(lane.replica_id))
        views.append(view_lane(lane, at, None if is_past else seen.get(lane.replica_id), load))
    return views


def _slo(
    database: Database, name: str, revisions: DesiredRevisions, since_unix: int, until_unix: int
) -> list[SloCount]:
    """Of the requests that were judged by the contract in force; [] where nothing is promised."""
    if revisions.contract is None:
        return []
    with database.reading() as session:
        counts = count_by_class(session, name, revisions.contract.label, since_unix, until_unix)
    return slo_counts(counts, revisions.contract.spec(SLOContractSpec))

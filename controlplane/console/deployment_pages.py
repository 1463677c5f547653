"""Deployments: the list, and one page a deployment, now or at an instant."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from controlplane.api.deployment_views import DeploymentDetail
from controlplane.api.deployments import (
    DeploymentNotFoundError,
    read_deployment,
    read_deployments,
)
from controlplane.api.diagnosis import read_diagnosis
from controlplane.api.request_query import QueryError, parse_instant
from controlplane.api.rollout_reading import read_rollouts
from controlplane.api.series import DEFAULT_RANGE, RANGES, SeriesError
from controlplane.console.answers import error_page, page, sentence
from controlplane.console.lanes import draw_lanes
from controlplane.console.memory_bar import MemoryPart, draw_memory
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)


@router.get("/deployments")
def deployments(request: Request) -> Response:
    """What should run and what does, deployment by deployment."""
    view = read_deployments(request.app.state, wall_clock())
    return page("deployments.html", page="deployments", view=view)


@router.get("/deployments/{name}")
def deployment(name: str, request: Request) -> Response:
    """What runs, since when, what changed, how it keeps its contract, what to do."""
    now = wall_clock()
    parameters = request.query_params
    range_, at = parameters.get("range") or DEFAULT_RANGE, parameters.get("at", "").strip()
    try:
        at_unix_ns = parse_instant("at", at, now) if at else None
        view = read_deployment(request.app.state, name, now, range_, at_unix_ns)
        diagnosis = None if at_unix_ns else read_diagnosis(request.app.state, name, now)
        rollouts = read_rollouts(request.app.state, now, name, limit=1).rollouts
    except DeploymentNotFoundError as error:
        remedy = "The list of deployments has those there are; the history of each says since when."
        return error_page(404, sentence(error), remedy, menu="deployments")
    except (QueryError, SeriesError) as error:
        return error_page(422, f"The page cannot be shown: {error}.", menu="deployments")
    return page(
        "deployment.html",
        page="deployments",
        view=view,
        diagnosis=diagnosis,
        rollout=rollouts[0] if rollouts and not at_unix_ns else None,
        lanes=draw_lanes(view),
        memory=_memory(view),
        at=at,
        ranges=[(each, _url(name, each, at)) for each in RANGES],
        url=_url(name, range_, at),
        series_url="/api/v1/series?" + urlencode({"range": range_, "deployment": name}),
    )


def _memory(view: DeploymentDetail) -> dict[str, list[MemoryPart] | None]:
    """The bar of every replica whose engine tells its memory; None where it tells no ledger."""
    return {
        lane.replica_id: draw_memory(lane.load.memory)
        for lane in view.lanes
        if lane.load is not None and lane.load.memory is not None
    }


def _url(name: str, range_: str, at: str) -> str:
    given = {"range": "" if range_ == DEFAULT_RANGE else range_, "at": at}
    query = urlencode({key: value for key, value in given.items() if value})
    return f"/deployments/{name}" + (f"?{query}" if query else "")

"""Promises: how all of them stand, and one page for those of a deployment."""

from urllib.parse import quote, urlencode

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response
from starlette.datastructures import State

from controlplane.api.alert_views import AlertView, view_alert
from controlplane.api.alerting import view_alerting
from controlplane.api.alerts import read_heard_views
from controlplane.api.slo import read_standing_list
from controlplane.api.slo_budget import DEFAULT_RANGE, RANGES
from controlplane.api.slo_views import StandingView
from controlplane.console.answers import error_page, page
from controlplane.console.budget_bar import draw_budget
from controlplane.console.who_hears import who_hears
from controlplane.slo.alert_windows import Severity
from controlplane.slo.state import SLOState
from controlplane.store.incident import IncidentState
from controlplane.store.incident_lists import list_incidents
from controlplane.store.silences import list_in_force
from dataplane import names
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

_MAX_INCIDENTS = 50
"""That are over, and whose alerts the page of a deployment lists."""
_SPENT_WINDOWS = ("1h", "6h", "3d")


@router.get("/slo")
def promises(request: Request) -> Response:
    """How every promise stands, the deployments in trouble first."""
    state, now = request.app.state, wall_clock()
    view = read_standing_list(state, now, None)
    groups: dict[str, list[StandingView]] = {}
    for each in view.standings:
        groups.setdefault(each.deployment, []).append(each)
    ordered = sorted(
        (sorted(found, key=urgency) for found in groups.values()),
        key=lambda found: urgency(found[0]),
    )
    return page(
        "slo.html",
        page="slo",
        view=view,
        groups=ordered,
        draw_budget=draw_budget,
        trouble=_trouble(view.standings),
        hearing=who_hears(view_alerting(state), read_heard_views(state, now)),
    )


@router.get("/slo/{deployment}")
def of_deployment(deployment: str, request: Request) -> Response:
    """One deployment's: budgets over time, burn rates, alerts, what spent them, what is silent."""
    state, now = request.app.state, wall_clock()
    range_ = request.query_params.get("range") or DEFAULT_RANGE
    if range_ not in RANGES:
        there_are = ", ".join(RANGES)
        return error_page(
            422, f"There is no range {range_[:32]!r}; there are {there_are}.", menu="slo"
        )
    try:
        view = read_standing_list(state, now, deployment)
    except HTTPException as error:
        remedy = "The list of promises has those there are."
        return error_page(404, f"{error.detail}.".capitalize(), remedy, menu="slo")
    path = f"/slo/{quote(deployment, safe='')}"
    return page(
        "slo_deployment.html",
        page="slo",
        name=deployment,
        view=view,
        standings=sorted(view.standings, key=urgency),
        draw_budget=draw_budget,
        trouble=_trouble(view.standings),
        alerts=_alerts(state, deployment, now),
        spent=_spent,
        range=range_,
        ranges=[(each, f"{path}?{urlencode({'range': each})}") for each in RANGES],
        url=path if range_ == DEFAULT_RANGE else f"{path}?{urlencode({'range': range_})}",
        series_url=f"/api/v1/slo/budget/{quote(deployment, safe='')}?range={range_}",
    )


def urgency(standing: StandingView) -> tuple[int, float]:
    """Smaller is more urgent: pages, tickets, overspent, no data, too little; then the budget."""
    severities = {each.severity for each in standing.firing}
    if Severity.PAGE.value in severities:
        rank = 0
    elif severities:
        rank = 1
    else:
        order = (SLOState.BREACHING, SLOState.NO_DATA, SLOState.INSUFFICIENT_DATA, SLOState.OK)
        rank = 2 + order.index(SLOState(standing.state))
    left = standing.budget_remaining
    return rank, 1.0 if left is None else left


def _trouble(standings: list[StandingView]) -> list[StandingView]:
    """Those that breach, the most urgent first."""
    found = [each for each in standings if each.state == SLOState.BREACHING.value]
    return sorted(found, key=urgency)


def _alerts(state: State, deployment: str, now_unix_ns: int) -> list[AlertView]:
    """Of its open incidents, and the newest of the others: those that fire first, then the last to
    begin."""
    is_open, is_over = IncidentState.OPEN, IncidentState.RESOLVED
    with state.config_db.reading() as session:
        incidents = [
            *list_incidents(session, deployment=deployment, state=is_open, limit=None),
            *list_incidents(session, deployment=deployment, state=is_over, limit=_MAX_INCIDENTS),
        ]
        silences = list_in_force(session, now_unix_ns)
    found = [
        view_alert(alert, silences, now_unix_ns) for each in incidents for alert in each.alerts
    ]
    return sorted(
        found, key=lambda each: (each.ended_at_unix_ns is not None, -each.started_at_unix_ns)
    )


def _spent(standing: StandingView) -> list[tuple[str, int, str]]:
    """Window, how many requests missed this objective in it, and where they are listed."""
    asked = {"deployment": standing.deployment, "class": standing.request_class}
    is_joint = standing.objective == names.TOGETHER
    asked |= {"in_contract": "false"} if is_joint else {"missed": standing.objective}
    burns = {each.window: each for each in standing.burns}
    return [
        (
            window,
            burns[window].num_judged - burns[window].num_good,
            "/requests?" + urlencode(asked | {"since": window}),
        )
        for window in _SPENT_WINDOWS
    ]

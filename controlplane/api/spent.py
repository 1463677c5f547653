"""The requests that spent the budget of which an incident's alerts tell, and how that stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from fastapi import HTTPException
from starlette.datastructures import State

from controlplane.api.missed import with_limits
from controlplane.api.request_query import QueryError, parse_request_query
from controlplane.api.requests import read_page
from controlplane.api.slo import read_standing_list
from controlplane.api.slo_views import StandingView
from controlplane.api.spent_views import SpentView
from controlplane.slo.alert_grouping import looks_back
from controlplane.store.incident import IncidentState, StoredIncident
from controlplane.store.incident_alert import StoredAlert
from dataplane import names

_NS = 10**9
_NUM_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Budget:
    """Of one objective, and the time in which its alerts saw it spent."""

    deployment: str
    request_class: str
    objective: str
    since_unix_ns: int
    until_unix_ns: int


def read_spent(state: State, incident: StoredIncident, now_unix_ns: int) -> list[SpentView]:
    """One for each objective that alerts of the incident tell of, in their order; none of one of
    the installation, which promises nothing."""
    if incident.deployment is None:
        return []
    budgets = list(_budgets(incident, incident.deployment, now_unix_ns))
    is_open = incident.state is IncidentState.OPEN
    standings = _standings(state, incident.deployment, now_unix_ns) if budgets and is_open else {}
    return [
        _view(state, each, standings.get((each.request_class, each.objective)), now_unix_ns)
        for each in budgets
    ]


def _budgets(incident: StoredIncident, deployment: str, now_unix_ns: int) -> Iterator[_Budget]:
    by_objective: dict[tuple[str, str], list[StoredAlert]] = {}
    for alert in incident.alerts:
        subject = alert.subject
        if subject.objective is not None and subject.request_class is not None:
            key = subject.request_class, subject.objective
            by_objective.setdefault(key, []).append(alert)
    for (request_class, objective), alerts in by_objective.items():
        yield _Budget(
            deployment=deployment,
            request_class=request_class,
            objective=objective,
            since_unix_ns=min(_saw_from(each) for each in alerts),
            until_unix_ns=max(each.ended_at_unix_ns or now_unix_ns for each in alerts),
        )


def _saw_from(alert: StoredAlert) -> int:
    """What was missed before it fired is what it fired for."""
    return alert.started_at_unix_ns - round(looks_back(alert.subject) * _NS)


def _view(
    state: State, budget: _Budget, standing: StandingView | None, now_unix_ns: int
) -> SpentView:
    asked = _query(budget)
    view = SpentView(
        request_class=budget.request_class,
        objective=budget.objective,
        since_unix_ns=budget.since_unix_ns,
        until_unix_ns=budget.until_unix_ns,
        requests_query=urlencode(asked),
        requests=[],
        has_more=False,
        standing=standing,
    )
    try:
        query = parse_request_query(asked | {"limit": str(_NUM_SHOWN)}, now_unix_ns)
    except QueryError:  # an objective of another version: its requests are not found by it here
        return view
    page = read_page(state.request_db, with_limits(query, state.config_db), now_unix_ns)
    return view.with_requests(page.requests, has_more=page.next is not None)


def _query(budget: _Budget) -> dict[str, str]:
    """For /requests. What was promised together has no filter of its own: out of contract."""
    is_joint = budget.objective == names.TOGETHER
    which = {"in_contract": "false"} if is_joint else {"missed": budget.objective}
    return {
        "deployment": budget.deployment,
        "class": budget.request_class,
        **which,
        "since": _iso(budget.since_unix_ns),
        "until": _iso(budget.until_unix_ns + _NS - 1),
    }


def _standings(
    state: State, deployment: str, now_unix_ns: int
) -> dict[tuple[str, str], StandingView]:
    """By class and objective; nothing of a deployment that is gone."""
    try:
        found = read_standing_list(state, now_unix_ns, deployment).standings
    except HTTPException:
        return {}
    return {(each.request_class, each.objective): each for each in found}


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // _NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

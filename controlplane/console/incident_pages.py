"""Incidents: the list, one page each, and the runbooks that say what to do."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from controlplane.api.alerts import read_heard_views
from controlplane.api.authentication import principal_of
from controlplane.api.authorization import find_refusal
from controlplane.api.free_text import check_free_text
from controlplane.api.incidents import change_incident, read_incident, read_incidents
from controlplane.console.answers import error_page, page, sentence
from controlplane.console.budget_bar import how_it_stands
from controlplane.console.forms import check_form
from controlplane.console.runbook_page import runbook_html, runbook_url
from controlplane.runbooks import INDEX, find_runbook
from controlplane.store.incident import IncidentError, IncidentState, UnknownIncidentError
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form(max_length=1024)]
_MAX_SHOWN = 200
_UNKNOWN = "The list has those there are; a resolved one stays in it."


@router.get("/incidents")
def incidents(request: Request) -> Response:
    """What is wrong now, and what was."""
    now = wall_clock()
    view = read_incidents(request.app.state, now, limit=_MAX_SHOWN)
    is_open = IncidentState.OPEN.value
    return page(
        "incidents.html",
        page="incidents",
        now=view.as_of_unix_ns,
        heard=read_heard_views(request.app.state, now),
        open=[each for each in view.incidents if each.state == is_open],
        resolved=[each for each in view.incidents if each.state != is_open],
    )


@router.get("/incidents/{incident_id}")
def incident(incident_id: str, request: Request) -> Response:
    """One: what, since when, what changed before, who is hurt, what to do."""
    return _page(request, incident_id)


@router.post("/incidents/{incident_id}", dependencies=[Depends(check_form)])
def change(incident_id: str, request: Request, action: Text, what: Text) -> Response:
    """Acknowledge, note or resolve it."""
    try:
        if not what.strip():
            raise IncidentError("say a word about it: it stands in the timeline")
        change_incident(request, incident_id, action, check_free_text(what.strip()))
    except UnknownIncidentError as error:
        return error_page(404, sentence(error), _UNKNOWN, menu="incidents")
    except ValueError as error:  # of an incident, or of text that nothing can hold
        return _page(request, incident_id, problem=sentence(error))
    return RedirectResponse(f"/incidents/{incident_id}", 303)


@router.get("/runbooks")
def runbooks() -> Response:
    """The index of them."""
    return RedirectResponse(f"/runbooks/{INDEX}", 303)


@router.get("/runbooks/{name}")
def runbook(name: str) -> Response:
    """What to do, for one mechanism or trouble."""
    found = find_runbook(name)
    if found is None:
        remedy = "The index has all of them: open /runbooks."
        return error_page(404, f"There is no runbook {name[:64]!r}.", remedy, menu="incidents")
    html = runbook_html(found)
    return page("runbook.html", page="incidents", title=found.title, html=html)


def _page(request: Request, incident_id: str, problem: str = "") -> Response:
    now = wall_clock()
    try:
        view = read_incident(request.app.state, incident_id, now)
    except UnknownIncidentError as error:
        return error_page(404, sentence(error), _UNKNOWN, menu="incidents")
    path = "/incidents/{incident_id}"
    return page(
        "incident.html",
        422 if problem else 200,
        page="incidents",
        now=now,
        view=view,
        runbook=runbook_url(view.incident.runbook),
        runbook_url=runbook_url,
        how_it_stands=how_it_stands,
        problem=problem,
        may_change=find_refusal(principal_of(request), "POST", path) is None,
    )

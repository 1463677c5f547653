"""Incidents: what was found or told wrong, since when, what changed before, who is hurt, what to
do; and what people say of it."""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.datastructures import State

from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.free_text import check_free_text
from controlplane.api.incident_views import (
    IncidentDetail,
    IncidentList,
    view_detail,
    view_line,
)
from controlplane.api.marks import read_marks
from controlplane.api.spent import read_spent
from controlplane.store.database import Database
from controlplane.store.incident import (
    IncidentError,
    IncidentState,
    StoredIncident,
    UnknownIncidentError,
    WholeIncident,
)
from controlplane.store.incident_lists import find_incident, list_incidents
from controlplane.store.incident_spell import minutes_of
from controlplane.store.incidents import acknowledge_incident, note_on_incident, resolve_incident
from controlplane.store.series import SeriesSpan
from controlplane.store.silences import list_in_force
from controlplane.store.usage import UsageKey, read_usage_within
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["incidents"])

MAX_LISTED = 1000
_CHANGES_BEFORE_SECONDS = 3600
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"description": "No incident has that id."}}
_REFUSED: dict[int | str, dict[str, Any]] = {
    **_UNKNOWN,
    409: {"description": "It is resolved, or somebody looks after it."},
}
Words = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(check_free_text)]


class IncidentWords(BaseModel):
    """What somebody says of an incident; it stands in its timeline."""

    model_config = ConfigDict(extra="forbid")

    what: Words


@router.get("/incidents")
def get_incidents(
    request: Request,
    deployment: Annotated[str | None, Query(max_length=128)] = None,
    state: IncidentState | None = None,
    mechanism: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> IncidentList:
    """Incidents, the newest first. `deployment` empty: those of the installation itself."""
    return read_incidents(request.app.state, wall_clock(), deployment, state, mechanism, limit)


@router.get("/incidents/{incident_id}", responses=_UNKNOWN)
def get_incident(incident_id: str, request: Request) -> IncidentDetail:
    """One incident: findings, alerts and the requests that spent the budget they tell of, timeline,
    what changed around its beginning, who is hurt."""
    try:
        return read_incident(request.app.state, incident_id, wall_clock())
    except UnknownIncidentError as error:
        raise HTTPException(404, str(error)) from error


@router.post("/incidents/{incident_id}/acknowledge", responses=_REFUSED)
def acknowledge(incident_id: str, body: IncidentWords, request: Request) -> IncidentDetail:
    """Say that you look after it. One that is reopened is looked after by nobody again."""
    return _change(request, incident_id, "acknowledge", body.what)


@router.post("/incidents/{incident_id}/notes", responses=_UNKNOWN)
def add_note(incident_id: str, body: IncidentWords, request: Request) -> IncidentDetail:
    """Add a line to its timeline."""
    return _change(request, incident_id, "note", body.what)


@router.post("/incidents/{incident_id}/resolve", responses=_REFUSED)
def resolve(incident_id: str, body: IncidentWords, request: Request) -> IncidentDetail:
    """Say that it is over, or none. If it is found again soon, or an alert of
    it still fires, it is reopened."""
    return _change(request, incident_id, "resolve", body.what)


def read_incidents(
    state: State,
    now_unix_ns: int,
    deployment: str | None = None,
    wanted_state: IncidentState | None = None,
    mechanism: str | None = None,
    limit: int = 100,
) -> IncidentList:
    """The newest first."""
    with _database(state).reading() as session:
        found = list_incidents(
            session, deployment=deployment, state=wanted_state, mechanism=mechanism, limit=limit
        )
    return IncidentList(as_of_unix_ns=now_unix_ns, incidents=[view_line(each) for each in found])


def read_incident(state: State, incident_id: str, now_unix_ns: int) -> IncidentDetail:
    """One of them, whole. Raises UnknownIncidentError."""
    with _database(state).reading() as session:
        whole = find_incident(session, incident_id[:64])
    if whole is None:
        raise UnknownIncidentError(f"there is no incident {incident_id[:64]!r}; see the list")
    return _detail(state, whole, now_unix_ns)


def change_incident(request: Request, incident_id: str, action: str, what: str) -> None:
    """Acknowledge, note or resolve, under the caller's name. Raises IncidentError."""
    actor, now = actor_of(principal_of(request)), wall_clock()
    with _database(request.app.state).session() as session:
        match action:
            case "acknowledge":
                acknowledge_incident(session, incident_id[:64], actor, what, now)
            case "note":
                note_on_incident(session, incident_id[:64], actor, what, now)
            case "resolve":
                resolve_incident(session, incident_id[:64], what, now, actor)
            case _:
                raise IncidentError(f"{action!r} is none of acknowledge, note and resolve")


def _change(request: Request, incident_id: str, action: str, what: str) -> IncidentDetail:
    try:
        change_incident(request, incident_id, action, what)
    except UnknownIncidentError as error:
        raise HTTPException(404, str(error)) from error
    except IncidentError as error:
        raise HTTPException(409, str(error)) from error
    return read_incident(request.app.state, incident_id, wall_clock())


def _detail(state: State, whole: WholeIncident, now_unix_ns: int) -> IncidentDetail:
    incident = whole.incident
    start = incident.spells[0].began_at_unix_ns // 10**9
    end = incident.spells[-1].ended_at_unix_ns(now_unix_ns) // 10**9 + 1
    span = SeriesSpan(start_unix=start - _CHANGES_BEFORE_SECONDS, end_unix=end, step_seconds=60)
    marks = read_marks(_database(state), span, incident.deployment, state.process_history)
    spent = read_spent(state, incident, now_unix_ns)
    with _database(state).reading() as session:
        silences = list_in_force(session, now_unix_ns)
    usage = _usage(state, incident, now_unix_ns)
    return view_detail(whole, marks, usage, now_unix_ns, spent, silences)


def _usage(
    state: State, incident: StoredIncident, now_unix_ns: int
) -> dict[UsageKey, Counter[str]]:
    """How requests of its deployment fared in the times in which it was open."""
    request_db: Database = state.request_db
    with request_db.reading() as session:
        return read_usage_within(
            session, minutes_of(incident.spells, now_unix_ns), deployment=incident.deployment
        )


def _database(state: State) -> Database:
    database: Database = state.config_db
    return database

"""Silences and maintenance windows: alerts that tell nobody for a time. The alert, its incident and
the budget go on, and say until when and by whom they are silenced."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.datastructures import State

from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.free_text import FreeText, check_free_text
from controlplane.api.silence_plan import create_plan
from controlplane.api.silence_views import SilenceList, SilencePlan, SilenceView, view_silence
from controlplane.api.slo import read_standing_list
from controlplane.operator.observed import ObservedState
from controlplane.slo.alert_windows import Severity
from controlplane.slo.silences import Silence, SilenceKind, SilenceScope
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration
from controlplane.store.database import Database
from controlplane.store.silences import (
    NewSilence,
    SilenceError,
    UnknownSilenceError,
    add_silence,
    end_silence,
    list_not_over,
    list_silences,
    plan_silence,
)
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["slo"])

MAX_LISTED = 1000
GivenReason = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(check_free_text)]


class SilenceRequest(BaseModel):
    """One to be made."""

    model_config = ConfigDict(extra="forbid")

    kind: SilenceKind
    """silence, which begins at once; or maintenance, which may be planned ahead."""
    reason: GivenReason
    """Shown to everybody until it is over, and kept in the audit."""
    lasts: Duration
    """As 30m or 2h; 24h at most, unless `may_be_longer`."""
    may_be_longer: bool = False
    """Up to 30d."""
    from_unix_ns: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Of maintenance; left away: at once."""
    deployment: Name | None = None
    """Only of this one."""
    everything: bool = False
    """Of every deployment and of the installation itself; has to be said where none is named."""
    request_class: Name | None = None
    """Only of this class."""
    objective: Annotated[FreeText, Field(max_length=32)] | None = None
    """Only of this objective: a signal, or together."""
    severity: Severity | None = None
    """Only pages, or only tickets."""

    def wanted(self) -> NewSilence:
        """As the store takes it."""
        return NewSilence(
            kind=self.kind,
            scope=SilenceScope(
                deployment=self.deployment,
                request_class=self.request_class,
                objective=self.objective,
                severity=self.severity,
            ),
            reason=self.reason,
            seconds=self.lasts,
            from_unix_ns=self.from_unix_ns,
            may_be_longer=self.may_be_longer,
            is_of_everything=self.everything,
        )


@router.get("/silences")
def get_silences(
    request: Request,
    include_over: Annotated[bool, Query(alias="all")] = False,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> SilenceList:
    """Silences and maintenance windows that are in force or planned; with `all`, those that are
    over as well."""
    return read_silences(request.app.state, wall_clock(), include_over, limit)


@router.post(
    "/silences",
    status_code=201,
    responses={409: {"description": "It would silence nothing, or has no bounded time."}},
)
def create_silence(body: SilenceRequest, request: Request) -> SilenceView:
    """Keep notifications of some alerts back for a time. To make it longer, make another."""
    try:
        made = make_silence(request, body.wanted())
    except SilenceError as error:
        raise HTTPException(409, str(error)) from error
    return view_silence(made, wall_clock())


@router.post(
    "/silences/plan",
    responses={409: {"description": "It would silence nothing, or has no bounded time."}},
)
def read_plan(body: SilenceRequest, request: Request) -> SilencePlan:
    """What it would keep back, and what the last hour says of that; nothing is made."""
    try:
        return plan(request, body.wanted())
    except SilenceError as error:
        raise HTTPException(409, str(error)) from error


@router.delete(
    "/silences/{silence_id}",
    responses={
        404: {"description": "None has that id."},
        409: {"description": "It is over already."},
    },
)
def delete_silence(silence_id: str, request: Request, reason: GivenReason) -> SilenceView:
    """End one before its time, or call off one that is planned; it is kept for the record."""
    try:
        ended = finish_silence(request, silence_id, reason)
    except UnknownSilenceError as error:
        raise HTTPException(404, str(error)) from error
    except SilenceError as error:
        raise HTTPException(409, str(error)) from error
    return view_silence(ended, wall_clock())


def read_silences(
    state: State, now_unix_ns: int, include_over: bool = False, limit: int = 100
) -> SilenceList:
    """The newest first."""
    with _database(state).reading() as session:
        found = (
            list_silences(session, limit)
            if include_over
            else list_not_over(session, now_unix_ns)[:limit]
        )
    return SilenceList(
        as_of_unix_ns=now_unix_ns,
        silences=[view_silence(each, now_unix_ns) for each in found],
    )


def plan(request: Request, wanted: NewSilence) -> SilencePlan:
    """Raises SilenceError."""
    state = request.app.state
    with _database(state).reading() as session:
        planned = plan_silence(session, wanted, actor=actor_of(principal_of(request)))
        now = planned.created_at_unix_ns
        others = list_not_over(session, now)
    standings = read_standing_list(state, now, wanted.scope.deployment).standings
    return create_plan(planned, standings, others, now)


def make_silence(request: Request, wanted: NewSilence) -> Silence:
    """Store it under the caller's name. Raises SilenceError."""
    with _database(request.app.state).session() as session:
        made = add_silence(session, wanted, actor=actor_of(principal_of(request)))
    _note_change(request.app.state)
    return made


def finish_silence(request: Request, silence_id: str, reason: str) -> Silence:
    """As `make_silence`, of its end."""
    with _database(request.app.state).session() as session:
        ended = end_silence(
            session, silence_id[:64], actor=actor_of(principal_of(request)), reason=reason
        )
    _note_change(request.app.state)
    return ended


def _note_change(state: State) -> None:
    """The banner of the next page shows it, whether or not the operator's pass was there yet."""
    observed: ObservedState = state.observed
    with _database(state).reading() as session:
        observed.set_silences(list_not_over(session, wall_clock()))


def _database(state: State) -> Database:
    database: Database = state.config_db
    return database

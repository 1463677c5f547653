"""Rollouts: deployments on their way from stable revisions to a candidate, step by step; what was
measured of them, and what people ask of them."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathField
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.free_text import check_free_text
from controlplane.api.rollout_asked import Asked
from controlplane.api.rollout_plan import create_plan
from controlplane.api.rollout_reading import (
    UnknownRolloutError,
    find_known,
    read_rollout,
    read_rollouts,
    read_situation,
)
from controlplane.api.rollout_views import RolloutDetail, RolloutList, RolloutPlan
from controlplane.rollouts.machine import Demand, UnmetDemandError
from controlplane.rollouts.worker import RolloutWorker, find_freeze
from controlplane.store.database import Database
from controlplane.store.rollout_demands import demand_rollout, retry_rollout
from controlplane.store.rollouts import StaleRolloutError, StoredRollout
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["rollouts"])

MAX_LISTED = 1000
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"description": "No rollout has that number."}}
_REFUSED: dict[int | str, dict[str, Any]] = {
    **_UNKNOWN,
    409: {"description": "That cannot be asked of it where it is."},
}
Number = Annotated[int, PathField(ge=1, lt=2**63)]
Words = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(check_free_text)]


class RefusedDemandError(ValueError):
    """That cannot be asked of a rollout where it is; the message says where, and what can."""


class RolloutDemand(BaseModel):
    """What somebody asks of a rollout."""

    model_config = ConfigDict(extra="forbid")

    reason: Words
    """Stands in its history, and in the audit."""
    step: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The step that it was seen at: refused where it has gone on since. Left away: wherever it
    is."""


@router.get("/rollouts")
def get_rollouts(
    request: Request,
    deployment: Annotated[str | None, Query(max_length=128)] = None,
    living: bool = False,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> RolloutList:
    """Rollouts, the newest first. `living`: only those that are under way."""
    return read_rollouts(request.app.state, wall_clock(), deployment, living, limit)


@router.get("/rollouts/{number}", responses=_UNKNOWN)
def get_rollout(number: Number, request: Request) -> RolloutDetail:
    """One: its steps, its arms, how they compare, and its history."""
    try:
        return read_rollout(request.app.state, number, wall_clock())
    except UnknownRolloutError as error:
        raise HTTPException(404, str(error)) from error


@router.get("/rollouts/{number}/plan", responses=_REFUSED)
def get_plan(number: Number, asked: Asked, request: Request) -> RolloutPlan:
    """What a demand would do, and what the last hour says of that; nothing is done."""
    try:
        return plan_demand(request.app.state, number, asked)
    except UnknownRolloutError as error:
        raise HTTPException(404, str(error)) from error
    except RefusedDemandError as error:
        raise HTTPException(409, str(error)) from error


@router.post("/rollouts/{number}/{asked}", responses=_REFUSED)
def post_demand(
    number: Number, asked: Asked, body: RolloutDemand, request: Request
) -> RolloutDetail:
    """Ask something of it, and answer how it is then; of `retry`, the other one that begins."""
    try:
        moved = make_demand(request, number, asked, body.reason, body.step)
        return read_rollout(request.app.state, moved, wall_clock())
    except UnknownRolloutError as error:
        raise HTTPException(404, str(error)) from error
    except RefusedDemandError as error:
        raise HTTPException(409, str(error)) from error


def plan_demand(state: State, number: int, asked: Asked) -> RolloutPlan:
    """Raises UnknownRolloutError and RefusedDemandError."""
    database: Database = state.config_db
    with database.reading() as session:
        rollout = find_known(session, number)
        situation = read_situation(session, state, rollout, wall_clock())
    try:
        return create_plan(rollout, asked, situation)
    except UnmetDemandError as error:
        raise _refusal(number, error) from error


def make_demand(
    request: Request, number: int, asked: Asked, reason: str, step: int | None = None
) -> int:
    """Do it under the caller's name, and have gateways hear of it; the number of the rollout that
    was moved or begun. Raises as `plan_demand`."""
    state, actor = request.app.state, actor_of(principal_of(request))
    database: Database = state.config_db
    try:
        with database.session() as session:
            rollout = _find_at(session, number, step)
            freeze = find_freeze(state.observed.overrides(), rollout.deployment)
            moved = _do(session, number, asked, actor=actor, reason=reason, freeze=freeze)
    except (UnmetDemandError, StaleRolloutError) as error:
        raise _refusal(number, error) from error
    worker: RolloutWorker = state.rollouts
    worker.wake()
    state.on_config_change()
    return moved


def _find_at(session: Session, number: int, step: int | None) -> StoredRollout:
    """Where somebody saw it. Raises UnmetDemandError where it has gone on."""
    rollout = find_known(session, number)
    here = rollout.progress.step + 1
    if step not in (None, here):
        raise UnmetDemandError(f"it is at step {here} by now, and not at {step}: look again")
    return rollout


def _do(
    session: Session, number: int, asked: Asked, *, actor: str, reason: str, freeze: str | None
) -> int:
    now = wall_clock()
    if asked is Asked.RETRY:
        begun = retry_rollout(session, number, actor=actor, reason=reason, now_unix_ns=now)
        return begun.number
    moved = demand_rollout(
        session,
        number,
        Demand(asked.value),
        actor=actor,
        reason=reason,
        now_unix_ns=now,
        freeze=freeze,
    )
    return moved.number


def _refusal(number: int, error: Exception) -> RefusedDemandError:
    return RefusedDemandError(f"rollout {number}: {error}")

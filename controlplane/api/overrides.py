"""Break-glass: what operators decided over a policy's head, until when, and why.

Gateways enforce it from their snapshot, and end it on their own clock.
"""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.datastructures import State

from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.changes import STALE_SECONDS
from controlplane.api.free_text import FreeText, check_free_text
from controlplane.api.override_views import OverrideList, OverrideView, view_override
from controlplane.operator.observed import ObservedState
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration
from controlplane.store.database import Database
from controlplane.store.overrides import (
    NewOverride,
    OverrideError,
    StoredOverride,
    UnknownOverrideError,
    add_override,
    end_override,
    list_in_force,
    list_overrides,
)
from dataplane.arm import Arm
from dataplane.clock import wall_clock
from dataplane.policy import OverrideKind
from dataplane.report import GatewayReport

router = APIRouter(prefix="/api/v1", tags=["overrides"])

MAX_LISTED = 1000
GivenReason = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(check_free_text)]
ReplicaId = Annotated[FreeText, Field(min_length=1, max_length=128)]


class OverrideRequest(BaseModel):
    """An override to be made."""

    model_config = ConfigDict(extra="forbid")

    kind: OverrideKind
    deployment: Name | None = None
    all_deployments: bool = False
    """For freeze: of every one, also of those that come later; has to be said where none is
    named."""
    reason: GivenReason
    """Shown to everybody until it ends, and kept in the audit."""
    lasts: Duration
    """As 30m or 2h; 24h at most, unless `may_be_longer`."""
    may_be_longer: bool = False
    """Up to 30d."""
    policy: Annotated[FreeText, Field(max_length=128)] | None = None
    """For pin_policy: the revision, as chat@12."""
    replicas: Annotated[list[ReplicaId], Field(max_length=1000)] = []
    """For pin_replicas: their ids."""
    request_class: Name | None = None
    """For bypass: only this class."""
    tenant: Name | None = None
    """For bypass: only this tenant."""
    arm: Arm | None = None
    """For force_arm: which takes all requests of the rollout that is under way."""


@router.get("/overrides")
def get_overrides(
    request: Request,
    include_ended: Annotated[bool, Query(alias="all")] = False,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> OverrideList:
    """Overrides that are in force; with `all`, those that ended as well."""
    return read_overrides(request.app.state, wall_clock(), include_ended, limit)


@router.post(
    "/overrides",
    status_code=201,
    responses={409: {"description": "Nothing could enforce it."}},
)
def create_override(body: OverrideRequest, request: Request) -> OverrideView:
    """Pin a policy or replicas, lift the limits, freeze rollouts or force one arm, for a time. To
    extend one, make another."""
    wanted = NewOverride(
        kind=body.kind,
        deployment=body.deployment,
        reason=body.reason,
        seconds=body.lasts,
        policy=body.policy,
        replica_ids=tuple(body.replicas),
        request_class=body.request_class,
        tenant=body.tenant,
        arm=body.arm,
        may_be_longer=body.may_be_longer,
    )
    try:
        if (body.deployment is None) is not body.all_deployments:
            raise OverrideError("deployment: name one, or say all_deployments, and not both")
        made = make_override(request, wanted)
    except OverrideError as error:
        raise HTTPException(409, str(error)) from error
    return _view(request.app.state, made)


@router.delete(
    "/overrides/{override_id}",
    responses={
        404: {"description": "No override has that id."},
        409: {"description": "It is over already."},
    },
)
def delete_override(override_id: str, request: Request, reason: GivenReason) -> OverrideView:
    """End one before its time. Gateways follow with the next snapshot."""
    try:
        ended = finish_override(request, override_id, reason)
    except UnknownOverrideError as error:
        raise HTTPException(404, str(error)) from error
    except OverrideError as error:
        raise HTTPException(409, str(error)) from error
    return _view(request.app.state, ended)


def read_overrides(
    state: State, now_unix_ns: int, include_ended: bool = False, limit: int = 100
) -> OverrideList:
    """The newest first."""
    database: Database = state.config_db
    with database.reading() as session:
        found = (
            list_overrides(session, limit)
            if include_ended
            else list_in_force(session, now_unix_ns)[:limit]
        )
    gateways = _current(state)
    return OverrideList(
        as_of_unix_ns=now_unix_ns,
        overrides=[view_override(each, now_unix_ns, gateways) for each in found],
    )


def make_override(request: Request, wanted: NewOverride) -> StoredOverride:
    """Store it under the caller's name, and have gateways hear of it. Raises OverrideError."""
    with _database(request).session() as session:
        made = add_override(session, wanted, actor=actor_of(principal_of(request)))
    _note_change(request)
    return made


def finish_override(request: Request, override_id: str, reason: str) -> StoredOverride:
    """As `make_override`, of its end."""
    with _database(request).session() as session:
        ended = end_override(
            session, override_id[:64], actor=actor_of(principal_of(request)), reason=reason
        )
    _note_change(request)
    return ended


def _note_change(request: Request) -> None:
    """The banner of the next page shows it, whether or not the operator's pass was there yet."""
    state = request.app.state
    observed: ObservedState = state.observed
    with _database(request).reading() as session:
        observed.set_overrides(list_in_force(session, wall_clock()))
    state.on_config_change()


def _view(state: State, stored: StoredOverride) -> OverrideView:
    return view_override(stored, wall_clock(), _current(state))


def _current(state: State) -> list[GatewayReport]:
    """What gateways say now; an old report says nothing of that."""
    observed: ObservedState = state.observed
    return [report for report, age in observed.gateways() if age < STALE_SECONDS]


def _database(request: Request) -> Database:
    database: Database = request.app.state.config_db
    return database

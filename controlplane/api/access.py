"""Keys and users: who may do what. For admins, but for `me`."""

import time
from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from controlplane.access.passwords import PasswordError, hash_password
from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.free_text import FreeText
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration
from controlplane.store.access_grants import AccessError
from controlplane.store.access_keys import (
    StoredKey,
    UnknownKeyError,
    add_key,
    list_keys,
    revoke_key,
)
from controlplane.store.database import Database
from controlplane.store.users import (
    User,
    add_user,
    list_users,
    set_disabled,
    set_password,
    set_role,
)
from dataplane.access import GRANTABLE, Role

router = APIRouter(prefix="/api/v1", tags=["access"])

Reason = Annotated[FreeText, Field(max_length=1024)]
GivenReason = Annotated[str, Field(min_length=1, max_length=1024)]
_MAX_DAYS = 3650


def _is_grantable(role: Role) -> Role:
    if role not in GRANTABLE:
        raise ValueError(f"no key with the role {role} is given to anybody")
    return role


GrantableRole = Annotated[Role, AfterValidator(_is_grantable)]


class Me(BaseModel):
    """Who is calling."""

    name: str
    role: Role
    tenant: str | None


class KeyRequest(BaseModel):
    """A key to be made."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    role: GrantableRole
    tenant: Name | None = None
    """Needed for a client, possible for a viewer."""
    expires_in: Duration | None = None
    """As 90d; None: it never expires."""
    reason: Reason = ""


class CreatedKey(BaseModel):
    """A key that was made."""

    key_id: str
    name: str
    key: str
    """Shown this once, and kept by nobody here."""


class KeyList(BaseModel):
    """Every key that was ever made."""

    keys: list[StoredKey]


class UserRequest(BaseModel):
    """A user to be made."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    role: Role
    tenant: Name | None = None
    password: SecretStr
    reason: Reason = ""


class UserChange(BaseModel):
    """What to change; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    role: Role | None = None
    tenant: Name | None = None
    """Only with `role`."""
    password: SecretStr | None = None
    is_disabled: bool | None = None
    reason: Reason = ""


class UserList(BaseModel):
    """Everybody."""

    users: list[User]


@router.get("/me")
def read_me(request: Request) -> Me:
    """Who the caller is."""
    principal = principal_of(request)
    return Me(name=principal.name, role=principal.role, tenant=principal.tenant)


@router.get("/keys")
def read_keys(request: Request) -> KeyList:
    """Every key, without its secret."""
    with _database(request).reading() as session:
        return KeyList(keys=list_keys(session))


@router.post("/keys", status_code=201, responses={409: {"description": "It cannot be made."}})
def create(body: KeyRequest, request: Request) -> CreatedKey:
    """Make a key. The answer is the only place where it is ever shown."""
    expires = None if body.expires_in is None else _deadline(body.expires_in)
    try:
        with _database(request).session() as session:
            new = add_key(
                session,
                name=body.name,
                role=body.role,
                tenant=body.tenant,
                expires_at_unix_ns=expires,
                actor=_actor(request),
                reason=body.reason,
            )
    except AccessError as error:
        raise HTTPException(409, str(error)) from error
    note_access_change(request)
    return CreatedKey(key_id=new.key_id, name=body.name, key=new.text)


@router.delete(
    "/keys/{name}",
    responses={
        404: {"description": "No key in use is called so."},
        409: {"description": "It is the last admin's."},
    },
)
def revoke(name: str, request: Request, reason: GivenReason) -> StoredKey:
    """End a key for good, by its name or id. Gateways follow with the next snapshot."""
    try:
        with _database(request).session() as session:
            revoked = revoke_key(session, name, actor=_actor(request), reason=reason)
    except UnknownKeyError as error:
        raise HTTPException(404, str(error)) from error
    except AccessError as error:
        raise HTTPException(409, str(error)) from error
    note_access_change(request)
    return revoked


@router.get("/users")
def read_users(request: Request) -> UserList:
    """Everybody who may log in to the console, or once might."""
    with _database(request).reading() as session:
        return UserList(users=list_users(session))


@router.post("/users", status_code=201, responses={409: {"description": "It cannot be made."}})
def create_user(body: UserRequest, request: Request) -> User:
    """Let somebody log in to the console."""
    hashed = _hash(body.password)
    try:
        with _database(request).session() as session:
            return add_user(
                session,
                name=body.name,
                role=body.role,
                tenant=body.tenant,
                password_hash=hashed,
                actor=_actor(request),
                reason=body.reason,
            )
    except AccessError as error:
        raise HTTPException(409, str(error)) from error


@router.patch(
    "/users/{name}",
    responses={
        404: {"description": "Nobody is called so."},
        409: {"description": "It cannot be changed so."},
    },
)
def change_user(name: str, body: UserChange, request: Request) -> User:
    """Change a role or a password, shut somebody out or let them in. Their sessions end."""
    if body.tenant is not None and body.role is None:
        raise HTTPException(422, "tenant: give the role as well")
    if body.is_disabled and not body.reason:
        raise HTTPException(422, "reason: say why they are shut out")
    hashed = None if body.password is None else _hash(body.password)
    actor, reason = _actor(request), body.reason
    with _database(request).session() as session:
        if name not in {user.name for user in list_users(session)}:
            raise HTTPException(404, f"there is no user {name!r}")
        try:
            if body.role is not None:
                set_role(session, name, body.role, body.tenant, actor=actor, reason=reason)
            if hashed is not None:
                set_password(session, name, hashed, actor=actor, reason=reason)
            if body.is_disabled is not None:
                set_disabled(session, name, body.is_disabled, actor=actor, reason=reason)
        except AccessError as error:
            raise HTTPException(409, str(error)) from error
        changed = next(user for user in list_users(session) if user.name == name)
    note_access_change(request)
    return changed


def note_access_change(request: Request) -> None:
    """Let this process forget what it knew, and gateways hear of it."""
    request.app.state.directory.forget()
    on_change = getattr(request.app.state, "on_config_change", None)
    if on_change is not None:
        on_change()


def _hash(password: SecretStr) -> str:
    try:
        return hash_password(password.get_secret_value())
    except PasswordError as error:
        raise HTTPException(422, f"password: {error}") from error


def _deadline(seconds: float) -> int:
    if not 0 < seconds <= _MAX_DAYS * 86400:
        raise HTTPException(422, f"expires_in: give more than 0s and at most {_MAX_DAYS}d")
    return time.time_ns() + int(seconds * 1e9)


def _actor(request: Request) -> str:
    return actor_of(principal_of(request))


def _database(request: Request) -> Database:
    database: Database = request.app.state.config_db
    return database

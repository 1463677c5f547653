"""Who may do what: keys and users, seen and changed by admins."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from controlplane.access.passwords import PasswordError, hash_password
from controlplane.access.principal import actor_of
from controlplane.api.access import note_access_change
from controlplane.api.authentication import principal_of
from controlplane.console.answers import page, sentence
from controlplane.console.forms import check_form
from controlplane.specs.names import Name
from controlplane.specs.quantity import parse_duration
from controlplane.store.access_grants import AccessError
from controlplane.store.access_keys import add_key, list_keys, revoke_key
from controlplane.store.users import add_user, list_users, set_disabled
from dataplane.access import FOR_PEOPLE, GRANTABLE, Role
from dataplane.clock import wall_clock
from dataplane.invalid_input import say_invalid

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form(max_length=1024)]
_NAME: TypeAdapter[str] = TypeAdapter(Name)


@router.get("/access")
def show_access(request: Request) -> Response:
    """Keys and users, and the forms that make them."""
    return _access_page(request)


@router.post("/access/keys", dependencies=[Depends(check_form)])
def create_key(
    request: Request,
    name: Text,
    role: Text,
    tenant: Text = "",
    expires_in: Text = "",
    reason: Text = "",
) -> Response:
    """Make a key and show it, this once."""

    def make(session: Session) -> str:
        expires = None if not expires_in else int(parse_duration(expires_in) * 1e9) + wall_clock()
        return add_key(
            session,
            name=_name(name),
            role=_role(role),
            tenant=tenant or None,
            expires_at_unix_ns=expires,
            actor=_actor(request),
            reason=reason,
        ).text

    given = {"name": name, "role": role, "tenant": tenant, "reason": reason}
    return _change(
        request,
        make,
        lambda key: _access_page(request, new_key=key, new_name=name),
        key={**given, "expires_in": expires_in},
    )


@router.post("/access/keys/revoke", dependencies=[Depends(check_form)])
def end_key(request: Request, key_id: Text, reason: Text) -> Response:
    """End a key for good."""
    return _change(
        request,
        lambda session: revoke_key(session, key_id, actor=_actor(request), reason=reason),
        lambda _: RedirectResponse("/access", 303),
    )


@router.post("/access/users", dependencies=[Depends(check_form)])
def create_user(
    request: Request,
    name: Text,
    role: Text,
    password: Text,
    tenant: Text = "",
    reason: Text = "",
) -> Response:
    """Let somebody log in."""
    return _change(
        request,
        lambda session: add_user(
            session,
            name=_name(name),
            role=Role(role),
            tenant=tenant or None,
            password_hash=hash_password(password),
            actor=_actor(request),
            reason=reason,
        ),
        lambda _: RedirectResponse("/access", 303),
        user={"name": name, "role": role, "tenant": tenant, "reason": reason},
    )


@router.post("/access/users/state", dependencies=[Depends(check_form)])
def change_state(request: Request, name: Text, is_disabled: Text, reason: Text) -> Response:
    """Shut somebody out, or let them in again."""
    return _change(
        request,
        lambda session: set_disabled(
            session, name, is_disabled == "true", actor=_actor(request), reason=reason
        ),
        lambda _: RedirectResponse("/access", 303),
    )


def _change(
    request: Request,
    make: Callable[[Session], Any],
    answer: Callable[[Any], Response],
    **given: dict[str, str],
) -> Response:
    """Make it in one transaction, or show the page again with what stood in the way, and the
    form, `key` or `user`, as it was filled in."""
    try:
        with request.app.state.config_db.session() as session:
            made = make(session)
    except (AccessError, PasswordError, ValueError) as error:
        return _access_page(request, problem=_sentence(error), given=given)
    note_access_change(request)
    return answer(made)


def _access_page(
    request: Request,
    problem: str = "",
    new_key: str = "",
    new_name: str = "",
    given: Mapping[str, Mapping[str, str]] | None = None,
) -> Response:
    with request.app.state.config_db.reading() as session:
        keys, users = list_keys(session), list_users(session)
    return page(
        "access.html",
        422 if problem else 200,
        page="access",
        keys=[key for key in keys if key.revoked_at_unix_ns is None],
        num_revoked=sum(key.revoked_at_unix_ns is not None for key in keys),
        users=users,
        roles=GRANTABLE,
        people_roles=FOR_PEOPLE,
        problem=problem,
        given=given or {},
        new_key=new_key,
        new_name=new_name,
        now=wall_clock(),
    )


def _role(text: str) -> Role:
    if text not in GRANTABLE:
        raise AccessError(f"{text!r} is none of {', '.join(GRANTABLE)}")
    return Role(text)


def _name(text: str) -> str:
    return _NAME.validate_python(text.strip())


def _sentence(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"Name: {say_invalid(first['type'], first['msg'])}."
    return sentence(error)


def _actor(request: Request) -> str:
    return actor_of(principal_of(request))

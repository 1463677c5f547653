"""Logging in and out of the console."""

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from controlplane.access.login_audit import LoginAudit
from controlplane.access.login_tally import Failure
from controlplane.access.passwords import is_right
from controlplane.access.throttle import LoginThrottle
from controlplane.api.authentication import SESSION_COOKIE, read_session_cookie
from controlplane.console.answers import page
from controlplane.console.forms import check_form
from controlplane.store.database import Database
from controlplane.store.sessions import LIFETIME_NS, begin_session, end_session, find_session
from controlplane.store.users import find_user, is_user
from dataplane.access import AuthMode
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

_MAX_NAME = 128
_MAX_FORM_BYTES = 16 * 2**10
_WRONG = "This name and password do not belong together."


@router.get("/login")
def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002
    """The form; where nobody needs it, straight on."""
    if request.app.state.auth is AuthMode.OFF:
        return RedirectResponse(_own_path(next), 303)
    return _login_page(wanted=next)


@router.post("/login", max_body_size=_MAX_FORM_BYTES)
def log_in(
    request: Request,
    name: Annotated[str, Form(max_length=_MAX_NAME)] = "",
    password: Annotated[str, Form(max_length=4096)] = "",
    next: Annotated[str, Form(max_length=2048)] = "/",  # noqa: A002
) -> Response:
    """Begin a session. Failures are slowed down, and never say what was wrong."""
    throttle: LoginThrottle = request.app.state.login_throttle
    audit: LoginAudit = request.app.state.login_audit
    address = _address(request)
    wait = throttle.begin_attempt(name, address, time.time())
    if wait:
        _note_failure(request, name, Failure.THROTTLED)
        answer = _login_page(f"Too many attempts. Try again in {wait} s.", name, next, 429)
        answer.headers["retry-after"] = str(wait)
        return answer
    database: Database = request.app.state.config_db
    with database.reading() as session:
        found = find_user(session, name)
    if not is_right(password, None if found is None else found[1]):
        _note_failure(request, name, Failure.DISABLED if found is None else Failure.WRONG_PASSWORD)
        return _login_page(_WRONG, name, next, 401)
    with database.session() as session:
        # Once more, inside the transaction: the password may have been replaced meanwhile.
        is_current = find_user(session, name) == found
        if is_current:
            new = begin_session(session, name, wall_clock())
            audit.note_begin(session, name, address)
    if not is_current:
        _note_failure(request, name, Failure.WRONG_PASSWORD)
        return _login_page(_WRONG, name, next, 401)
    throttle.note_success(name, address)
    answer = RedirectResponse(_own_path(next), 303)
    answer.set_cookie(
        SESSION_COOKIE,
        new.token,
        max_age=LIFETIME_NS // 10**9,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout", dependencies=[Depends(check_form)])
def log_out(request: Request) -> Response:
    """End the session on both sides."""
    token = read_session_cookie(request.headers)
    if token is not None:
        with request.app.state.config_db.session() as session:
            ending = find_session(session, token, wall_clock())
            end_session(session, token)
            if ending is not None:
                audit: LoginAudit = request.app.state.login_audit
                audit.note_end(session, ending.user_name, _address(request))
        request.app.state.directory.forget()
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    return answer


def _note_failure(request: Request, name: str, why: Failure) -> None:
    with request.app.state.config_db.reading() as session:
        user = name if is_user(session, name) else None
    if user is None and why is not Failure.THROTTLED:
        why = Failure.UNKNOWN
    audit: LoginAudit = request.app.state.login_audit
    audit.note_failure(why, user, _address(request))


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _login_page(
    problem: str = "", name: str = "", wanted: str = "/", status: int = 200
) -> Response:
    return page(
        "login.html", status, page="login", problem=problem, name=name, wanted=_own_path(wanted)
    )


def _own_path(wanted: str) -> str:
    """A place of ours to go on to; never another site's."""
    is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_ours and wanted.isprintable() and not wanted.startswith("/login") else "/"

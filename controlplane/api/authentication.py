"""Who is calling: known before a request goes any further, its body unread.

Plain ASGI, because event streams pass through as well. A key comes as a bearer token, a
browser's session as a cookie. With authentication off, whoever reaches the port is `local`
and may do everything; that the caller is a page of some other site, or was led here by a
name that somebody else controls, is refused all the same.
"""

from pathlib import Path
from urllib.parse import quote, urlsplit

from fastapi import FastAPI, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.access.current import current_principal
from controlplane.access.directory import AccessDirectory
from controlplane.access.gateway_keys import GatewayKeys
from controlplane.access.login_audit import LoginAudit
from controlplane.access.principal import LOCAL, Principal
from controlplane.access.refused_gateways import RefusedGateways
from controlplane.access.throttle import LoginThrottle
from controlplane.store.database import Database
from dataplane.access import AuthMode, KeyProblem, is_loopback, read_bearer

SESSION_COOKIE = "pilothouse_session"
_PUBLIC = ("/login", "/healthz")
_PUBLIC_PREFIX = "/static/"
_GATEWAYS_PREFIX = "/api/v1/gateways/"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_KEY_PROBLEMS = {
    KeyProblem.MALFORMED: "this is no key; one looks like phk_<id>_<secret>",
    KeyProblem.UNKNOWN: "this key is not known, or was revoked",
    KeyProblem.EXPIRED: "this key has expired; ask for a new one",
}


def install_authentication(
    app: FastAPI, database: Database, auth: AuthMode, secrets: Path | None = None
) -> None:
    """Let nothing but the login page answer to who is not known.

    Our own keys are kept in `secrets`; None: gateways ask nobody who they are.
    """
    app.state.directory = AccessDirectory(database)
    app.state.gateway_keys = None if secrets is None else GatewayKeys(database, secrets)
    app.state.auth = auth
    app.state.login_throttle = LoginThrottle()
    app.state.login_audit = LoginAudit(database)
    app.add_middleware(Authentication, directory=app.state.directory, auth=auth)


def principal_of(request: Request) -> Principal:
    """Who makes this request."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


async def is_still_known(request: Request) -> bool:
    """Whether the key or the session that a long answer was begun with still opens anything."""
    if principal_of(request) is LOCAL:
        return True
    directory: AccessDirectory = request.app.state.directory
    authorization = request.headers.get("authorization")
    if authorization is None:
        session = read_session_cookie(request.headers) or ""
        return await run_in_threadpool(directory.by_session, session) == principal_of(request)
    found = await run_in_threadpool(directory.by_key, read_bearer(authorization) or "")
    return isinstance(found, Principal)


class Authentication:
    """Answers 401 or 403 itself, or puts the principal into the scope and passes on."""

    def __init__(self, app: ASGIApp, directory: AccessDirectory, auth: AuthMode) -> None:
        self._app = app
        self._directory = directory
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = _refuse_other_sites(scope, headers, self._auth)
        if refusal is None and not is_public(scope["path"]):
            try:
                principal = await self._find(headers, scope)
            except SQLAlchemyError as error:
                await self._answer_error(Request(scope), error, receive, send)
                return
            if isinstance(principal, Principal):
                scope.setdefault("state", {})["principal"] = principal
                current_principal.set(principal)
            else:
                refusal = principal
        await (refusal or self._app)(scope, receive, send)

    async def _answer_error(
        self, request: Request, error: Exception, receive: Receive, send: Send
    ) -> None:
        """As the application answers it: nobody is behind this middleware to do so."""
        handlers = request.app.exception_handlers
        found = [handlers[kind] for kind in type(error).__mro__ if kind in handlers]
        if not found:
            raise error
        answer: Response = await found[0](request, error)
        await answer(request.scope, receive, send)

    async def _find(self, headers: Headers, scope: Scope) -> Principal | Response:
        if self._auth is AuthMode.OFF:
            return LOCAL
        if "authorization" in headers:
            token = read_bearer(headers["authorization"])
            found = (
                KeyProblem.MALFORMED
                if token is None
                else await run_in_threadpool(self._directory.by_key, token)
            )
            if isinstance(found, Principal):
                return found
            if token is not None and scope["path"].startswith(_GATEWAYS_PREFIX):
                await run_in_threadpool(_note_refused_gateway, scope, token)
            return _say_who(_KEY_PROBLEMS[found])
        token = read_session_cookie(headers)
        principal = (
            None if token is None else await run_in_threadpool(self._directory.by_session, token)
        )
        if principal is None:
            return _ask_to_log_in(scope, headers)
        if scope["path"].startswith("/api/") and scope["method"] not in _SAFE_METHODS:
            return _refuse("changes through the API need a key, not a browser's session")
        return principal


def is_public(path: str) -> bool:
    """What everybody may see: the way in, and whether the process is well."""
    return path in _PUBLIC or path.startswith(_PUBLIC_PREFIX)


def read_session_cookie(headers: Headers) -> str | None:
    """The session's token, None when the browser sent none."""
    return cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)


def _note_refused_gateway(scope: Scope, token: str) -> None:
    refused: RefusedGateways = scope["app"].state.refused_gateways
    refused.note_refused(scope["path"].removeprefix(_GATEWAYS_PREFIX).partition("/")[0], token)


def _refuse_other_sites(scope: Scope, headers: Headers, auth: AuthMode) -> Response | None:
    host = headers.get("host", "")
    if auth is AuthMode.OFF and not is_loopback(_host_in(f"//{host}")):
        # A page of another site can point its own name at 127.0.0.1 and then read everything.
        return _refuse(
            f"without authentication only this machine's own names are answered, not {host!r}; "
            "use http://127.0.0.1, or start with --auth required"
        )
    if scope["method"] in _SAFE_METHODS:
        return None
    origin = headers.get("origin")
    is_other = origin is not None and _netloc_in(origin) != host
    if is_other or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return _refuse("this was sent by a page of another site")
    return None


def _host_in(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that hold no address
        return ""


def _netloc_in(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _ask_to_log_in(scope: Scope, headers: Headers) -> Response:
    path = scope["path"]
    is_page = "text/html" in headers.get("accept", "") and not path.startswith("/api/")
    if not is_page:
        return _say_who("who is calling? Send a key: Authorization: Bearer phk_<id>_<secret>")
    if scope["method"] not in _SAFE_METHODS or path == "/":
        return RedirectResponse("/login", 303)
    query = scope["query_string"].decode("latin-1")
    wanted = f"{path}?{query}" if query else path
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)


def _say_who(detail: str) -> Response:
    return JSONResponse({"detail": detail}, 401, headers={"www-authenticate": "Bearer"})


def _refuse(detail: str) -> Response:
    return JSONResponse({"detail": detail}, 403)

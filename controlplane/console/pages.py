"""The console's pages. Each is the view model of an API path, rendered."""

from urllib.parse import quote, urlencode

import structlog
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import JSONResponse, RedirectResponse, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from controlplane.api.authorization import authorize, tenant_of
from controlplane.api.overview import read_overview
from controlplane.api.request_query import QueryError, parse_request_query
from controlplane.api.requests import (
    AmbiguousRequestError,
    RequestNotFoundError,
    read_live,
    read_page,
    read_request,
)
from controlplane.console import (
    access_pages,
    audit_pages,
    config_pages,
    deployment_pages,
    login_pages,
)
from controlplane.console.answers import error_page, page, sentence
from controlplane.console.event_rows import fold_events
from controlplane.console.headers import SecurityHeaders
from controlplane.console.templating import STATIC_DIRECTORY
from controlplane.console.waterfall import draw
from controlplane.store.requests import list_names
from dataplane.clock import wall_clock
from dataplane.lifecycle import Disposition

router = APIRouter(include_in_schema=False)

_log = structlog.get_logger(__name__)

_static = StaticFiles(directory=STATIC_DIRECTORY)
_NAMES_SECONDS = 86400
_FOREVER = "public, max-age=31536000, immutable"


def install_console(app: FastAPI) -> None:
    """Add the pages, their error pages and the security headers of every answer."""
    for pages in (
        router,
        config_pages.router,
        deployment_pages.router,
        login_pages.router,
        access_pages.router,
        audit_pages.router,
    ):
        app.include_router(pages, dependencies=[Depends(authorize)])
    app.add_exception_handler(SQLAlchemyError, answer_database_error)
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(HTTPException, answer_http_error)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """JSON under /api, a page that says what to do elsewhere."""
    assert isinstance(error, HTTPException)
    if not _wants_page(request):
        return await http_exception_handler(request, error)
    what = "There is no such page." if error.status_code == 404 else str(error.detail)
    return error_page(error.status_code, what)


async def answer_database_error(request: Request, error: Exception) -> Response:
    """A database that does not answer: 503, said as such, with its own words in the log."""
    _log.error("the database did not answer", path=request.url.path, error=str(error))
    what = "The control plane's database does not answer"
    if not _wants_page(request):
        return JSONResponse({"detail": f"{what}: {type(error).__name__}"}, 503)
    return error_page(503, f"{what}: what is stored cannot be shown.")


@router.get("/")
def overview(request: Request) -> Response:
    """What is wrong, what runs, how the last half hour went."""
    if tenant_of(request) is not None:
        return RedirectResponse("/requests", 303)
    state = request.app.state
    view = read_overview(state.config_db, state.request_db, state.observed, wall_clock())
    return page("overview.html", page="overview", view=view)


@router.get("/requests")
def requests(request: Request) -> Response:
    """The list of ended requests, with its filters."""
    now = wall_clock()
    database = request.app.state.request_db
    parameters = request.query_params
    try:
        query = parse_request_query(parameters, now).within(tenant_of(request))
    except QueryError as error:
        return error_page(422, f"The list cannot be shown: {error}.", menu="requests")
    with database.reading() as session:
        names = list_names(session, now // 10**9 - _NAMES_SECONDS, tenant_of(request))
    listed = read_page(database, query, now)
    given = {name: parameters.get(name, "") for name in _FILTERS}
    return page(
        "requests.html",
        page="requests",
        view=listed,
        given=given,
        has_filters=any(given.values()),
        choices=_choices(names, given),
        next_url=_next_url(given, query.limit, listed.next),
        is_first=query.after is None,
        url=str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
    )


@router.get("/requests/live")
async def live_requests(request: Request) -> Response:
    """A fragment: the requests in flight. The list asks for it after it was shown."""
    view = await read_live(request)
    return await run_in_threadpool(page, "live.html", view=view)


@router.get("/requests/{request_id:path}")
def one_request(request_id: str, request: Request) -> Response:
    """One request: its life, why it went where it went, its judgement, its events."""
    if request_id == "":
        wanted = request.query_params.get("id", "").strip()
        return RedirectResponse(
            f"/requests/{quote(wanted, safe='')}" if wanted else "/requests", 303
        )
    try:
        view = read_request(
            request.app.state.request_db, request_id, wall_clock(), tenant_of(request)
        )
    except RequestNotFoundError as error:
        return error_page(404, sentence(error), menu="requests")
    except AmbiguousRequestError as error:
        return page(
            "several.html", 409, page="requests", identifier=request_id, ids=error.request_ids
        )
    return page(
        "request.html",
        page="requests",
        view=view,
        waterfall=draw(view.life),
        rows=fold_events(view.events),
    )


@router.get("/static/{path:path}")
async def static(path: str, request: Request) -> Response:
    """Styles and scripts; kept by browsers when the address carries the content's digest."""
    response = await _static.get_response(path, request.scope)
    if "v" in request.query_params:
        response.headers["cache-control"] = _FOREVER
    return response


_FILTERS = ("deployment", "class", "tenant", "disposition", "in_contract", "since")
_AGES = {"": "any time", "15m": "15 min", "1h": "1 h", "6h": "6 h", "1d": "1 day", "7d": "7 days"}


def _next_url(given: dict[str, str], limit: int, after: str | None) -> str | None:
    if after is None:
        return None
    kept = {name: value for name, value in given.items() if value}
    return "/requests?" + urlencode({**kept, "limit": limit, "after": after})


def _choices(
    names: dict[str, list[str]], given: dict[str, str]
) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Every filter: its name, its label and its options; what is given is always among them."""

    def options(parameter: str, values: list[str]) -> list[tuple[str, str]]:
        chosen = given[parameter]
        extra = [chosen] if chosen and chosen not in values else []
        return [("", "any"), *((value, value) for value in values + extra)]

    ages = list(_AGES.items())
    if given["since"] not in _AGES:
        ages.append((given["since"], given["since"]))
    return [
        ("deployment", "Deployment", options("deployment", names["deployment"])),
        ("class", "Class", options("class", names["request_class"])),
        ("tenant", "Tenant", options("tenant", names["tenant"])),
        ("disposition", "Ended", options("disposition", [word.value for word in Disposition])),
        ("in_contract", "Contract", [("", "any"), ("true", "kept"), ("false", "missed")]),
        ("since", "Arrived within", ages),
    ]


def _wants_page(request: Request) -> bool:
    path = request.url.path
    is_api = path.startswith("/api/") or path in ("/metrics", "/healthz", "/openapi.json")
    return not is_api and "text/html" in request.headers.get("accept", "")

"""The console's pages. Each is the view model of an API path, rendered."""

from collections.abc import Sequence
from functools import cache
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from controlplane.api.authorization import authorize, tenant_of
from controlplane.api.live import LiveRequest
from controlplane.api.missed import with_limits
from controlplane.api.overview import read_overview
from controlplane.api.request_query import QueryError, parse_request_query
from controlplane.api.requests import (
    AmbiguousRequestError,
    RequestNotFoundError,
    read_live,
    read_page,
    read_request,
)
from controlplane.api.series import DEFAULT_RANGE, RANGES
from controlplane.api.signal_words import SIGNAL_WORDS
from controlplane.console import (
    access_pages,
    audit_pages,
    break_glass_pages,
    config_pages,
    deployment_pages,
    incident_pages,
    login_pages,
    rollout_pages,
    silence_pages,
    slo_pages,
    usage_pages,
)
from controlplane.console.answers import error_page, page, sentence
from controlplane.console.banner import KnowWhatIsInForce
from controlplane.console.error_pages import install_error_pages
from controlplane.console.event_rows import fold_events
from controlplane.console.headers import SecurityHeaders
from controlplane.console.templating import STATIC_DIRECTORY
from controlplane.console.waiting_lines import waiting_lines
from controlplane.console.waterfall import draw
from controlplane.store.requests import list_names
from dataplane.clock import wall_clock
from dataplane.lifecycle import Disposition

router = APIRouter(include_in_schema=False)

_static = StaticFiles(directory=STATIC_DIRECTORY)
_NAMES_SECONDS = 86400
_FOREVER = "public, max-age=31536000, immutable"


def install_console(app: FastAPI) -> None:
    """Add the pages, their error pages and the security headers of every answer."""
    app.router.routes.extend(_routes())
    app.add_middleware(KnowWhatIsInForce)
    app.add_middleware(SecurityHeaders)
    install_error_pages(app)


@cache
def _routes() -> Sequence[BaseRoute]:
    """Built once in a process, as those of the API."""
    together = APIRouter()
    for pages in (
        router,
        config_pages.router,
        deployment_pages.router,
        incident_pages.router,
        login_pages.router,
        access_pages.router,
        audit_pages.router,
        break_glass_pages.router,
        rollout_pages.router,
        silence_pages.router,
        slo_pages.router,
        usage_pages.router,
    ):
        together.include_router(pages, dependencies=[Depends(authorize)])
    return together.routes


@router.get("/")
def overview(request: Request) -> Response:
    """What is wrong, what runs, how the last half hour went."""
    if tenant_of(request) is not None:
        return RedirectResponse("/requests", 303)
    state = request.app.state
    range_ = request.query_params.get("range") or DEFAULT_RANGE
    if range_ not in RANGES:
        return error_page(422, f"There is no range {range_[:32]!r}; there are {', '.join(RANGES)}.")
    view = read_overview(state.config_db, state.request_db, state.observed, wall_clock())
    return page(
        "overview.html",
        page="overview",
        view=view,
        range=range_,
        ranges=[(each, "/" if each == DEFAULT_RANGE else f"/?range={each}") for each in RANGES],
    )


@router.get("/requests")
def requests(request: Request) -> Response:
    """The list of ended requests, with its filters."""
    now = wall_clock()
    database = request.app.state.request_db
    parameters = request.query_params
    try:
        query = parse_request_query(parameters, now).within(tenant_of(request))
        query = with_limits(query, request.app.state.config_db)
        listed = read_page(database, query, now)
    except QueryError as error:
        return error_page(422, f"The list cannot be shown: {error}.", menu="requests")
    with database.reading() as session:
        names = list_names(session, now // 10**9 - _NAMES_SECONDS, tenant_of(request))
    given = {name: parameters.get(name, "") for name in _FILTERS}
    return page(
        "requests.html",
        page="requests",
        view=listed,
        given=given,
        has_filters=any(given.values()),
        choices=_choices(names, given),
        next_url=_next_url(given, query.limit, listed.next),
        is_first=query.is_first,
        live_url=_live_url(given),
        url=str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
    )


@router.get("/requests/live")
async def live_requests(request: Request) -> Response:
    """A fragment: the requests in flight. The list asks for it after it was shown."""
    view = await read_live(request)
    given = {name: request.query_params.get(name, "") for name in _LIVE_FILTERS}
    shown = [each for each in view.requests if _is_wanted(each, given)]
    return await run_in_threadpool(
        page, "live.html", view=view, shown=shown, lines=waiting_lines(shown)
    )


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


_FILTERS = (
    "deployment", "class", "tenant", "disposition", "in_contract", "missed", "since", "until",
)  # fmt: skip
_LIVE_FILTERS = ("deployment", "class", "tenant")


def _is_wanted(each: LiveRequest, given: dict[str, str]) -> bool:
    """What is not known yet matches nothing but an open filter."""
    known = {"deployment": each.deployment, "class": each.request_class, "tenant": each.tenant}
    return all(known[name] == value for name, value in given.items() if value)


def _live_url(given: dict[str, str]) -> str:
    kept = {name: given[name] for name in _LIVE_FILTERS if given[name]}
    return "/requests/live" + (f"?{urlencode(kept)}" if kept else "")


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

    misses = [(signal.value, words) for signal, words in SIGNAL_WORDS.items()]
    return [
        ("deployment", "Deployment", options("deployment", names["deployment"])),
        ("class", "Class", options("class", names["request_class"])),
        ("tenant", "Tenant", options("tenant", names["tenant"])),
        ("disposition", "Ended", options("disposition", [word.value for word in Disposition])),
        ("in_contract", "Contract", [("", "any"), ("true", "kept"), ("false", "missed")]),
        ("missed", "Missed", [("", "any"), *misses]),
    ]

"""The control plane's application: its rooms put together, with what they share.

What it works with (databases, the operator) was opened before, and ends with its lifespan. On
`app.state`: `opened` and its parts `config_db`, `request_db`, `observed`, `snapshots` and
`operator`, `retention`, `diagnosis`, `alerting`, `rollouts`, `process_history`,
`refused_gateways`;
`standings`, `registry`, `on_config_change`, `start_error`; what `shared` makes, and of that
`closing`, which is set when the server is about to end, for streams that would otherwise never do.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from types import TracebackType

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import BaseRoute

from controlplane.access.own_keys import secrets_dir
from controlplane.access.refused_gateways import RefusedGateways
from controlplane.api import (
    access,
    alerting,
    alerts,
    audit,
    config,
    config_export,
    config_history,
    deployments,
    diagnosis,
    events,
    gateways,
    incidents,
    metrics,
    otlp,
    overrides,
    overview,
    plan,
    processes,
    records,
    replicas,
    request_data,
    rollouts,
    scrape_targets,
    series,
    silences,
    slo,
    slo_budget,
    usage,
)
from controlplane.api import requests as requests_api
from controlplane.api.authentication import install_authentication
from controlplane.api.authorization import authorize
from controlplane.api.errors import ERROR_RESPONSES, add_error_handlers
from controlplane.api.free_text import RefuseNul
from controlplane.api.shared import install_shared
from controlplane.console.pages import install_console
from controlplane.open_state import OpenState
from controlplane.slo.reading import StandingReader
from dataplane.access import AuthMode

_MAX_BODY_BYTES = 16 * 2**20
"""Of a request to any path that does not say otherwise."""

_description = APIRouter()


@_description.get("/openapi.json", include_in_schema=False)
def read_description(request: Request) -> JSONResponse:
    """The API's description in OpenAPI's form."""
    return JSONResponse(request.app.openapi())


_ROUTERS = (
    _description,
    access.router,
    alerting.router,
    alerts.router,
    audit.router,
    config.router,
    config_export.router,
    config_history.router,
    deployments.router,
    diagnosis.router,
    events.router,
    gateways.router,
    incidents.router,
    metrics.router,
    otlp.router,
    overrides.router,
    overview.router,
    plan.router,
    processes.router,
    records.router,
    replicas.router,
    request_data.router,
    requests_api.router,
    rollouts.router,
    scrape_targets.router,
    series.router,
    silences.router,
    slo.router,
    slo_budget.router,
    usage.router,
)


def create_app(
    opened: OpenState, auth: AuthMode = AuthMode.OFF, state_dir: Path | None = None
) -> FastAPI:
    """The application over `opened`, which its lifespan closes.

    With authentication, keys of its own lie below `state_dir`.
    """
    app = FastAPI(
        title="Pilothouse",
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # served by a route of ours, which asks for a role
        max_body_size=_MAX_BODY_BYTES,
    )
    app.state.opened = opened
    app.state.start_error = None
    app.router.routes.extend(api_routes())
    add_error_handlers(app)
    app.add_middleware(RefuseNul)
    has_keys = auth is AuthMode.REQUIRED and state_dir is not None
    secrets = secrets_dir(state_dir) if has_keys and state_dir is not None else None
    install_authentication(app, opened.config_db, auth, secrets)
    install_console(app)
    install_shared(app, opened.config_db)
    return app


@cache
def api_routes() -> Sequence[BaseRoute]:
    """Built once in a process, however many applications it makes: each inclusion in another
    application would work out what every route takes and answers anew, for half a second."""
    together = APIRouter()
    for router in _ROUTERS:
        together.include_router(
            router, dependencies=[Depends(authorize)], responses=ERROR_RESPONSES
        )
    return together.routes


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    opened: OpenState = state.opened
    async with AsyncExitStack() as stack:
        stack.push(partial(_note_error, app))
        # Its last pass may be under way, and must not hold up what still streams.
        stack.push_async_callback(asyncio.to_thread, opened.close)
        stack.push_async_callback(asyncio.to_thread, state.login_audit.close)
        state.config_db, state.request_db = opened.config_db, opened.request_db
        state.observed, state.snapshots = opened.observed, opened.snapshots
        state.operator = opened.operator
        state.on_config_change = opened.operator.wake
        state.retention, state.diagnosis = opened.retention, opened.diagnosis
        state.process_history = opened.process_history
        state.refused_gateways = RefusedGateways(
            opened.config_db, opened.observed, opened.process_history
        )
        state.standings = StandingReader()
        opened.retention.start()
        keys = state.gateway_keys
        opened.diagnosis.start(None if keys is None else lambda name: keys.get(name)[0])
        state.alerting = opened.alerting
        opened.alerting.start(state.standings)
        state.rollouts = opened.rollouts
        opened.rollouts.start()
        state.registry = metrics.create_registry(state)
        yield


def _note_error(
    app: FastAPI,
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    """The server only logs what a lifespan raises; who started it wants to know."""
    app.state.start_error = error

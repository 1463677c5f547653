"""The control plane's application: its rooms put together, with what they share.

What lives as long as the application (databases, the operator) is opened by its lifespan
and closed in reverse. On `app.state`: `settings`, `config_db`, `request_db`, `observed`,
`snapshots`, `operator`, `registry`, `on_config_change`, `start_error`, and `closing`, which
is set when the server is about to end, for streams that would otherwise never do.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType

from fastapi import FastAPI

from controlplane.api import config, events, gateways, metrics, overview, records, replicas
from controlplane.api import requests as requests_api
from controlplane.api.errors import add_error_handlers
from controlplane.api.settings import ControlPlaneSettings
from controlplane.console.pages import install_console
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.operator import Operator
from controlplane.operator.snapshot import SnapshotFeed
from controlplane.store.database import DatabaseKind, open_database

_ROUTERS = (
    config.router,
    events.router,
    gateways.router,
    metrics.router,
    overview.router,
    records.router,
    replicas.router,
    requests_api.router,
)


def create_app(settings: ControlPlaneSettings) -> FastAPI:
    """The application. Nothing is opened before its lifespan begins, which raises SchemaError
    when a database must not be used as it is."""
    app = FastAPI(title="Pilothouse", lifespan=_lifespan, docs_url=None, redoc_url=None)
    app.state.settings = settings
    app.state.start_error = None
    for router in _ROUTERS:
        app.include_router(router)
    add_error_handlers(app)
    install_console(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    settings: ControlPlaneSettings = state.settings
    async with AsyncExitStack() as stack:
        stack.push(partial(_note_error, app))
        state.closing = asyncio.Event()
        for kind, name in (
            (DatabaseKind.CONFIG, "config_db"),
            (DatabaseKind.REQUESTS, "request_db"),
        ):
            database = open_database(settings.database_url(kind), kind)
            stack.callback(database.close)
            setattr(state, name, database)
        state.observed = ObservedState()
        state.snapshots = SnapshotFeed()
        plugins = InstalledPlugins(settings.state_dir)
        operator = Operator(state.config_db, plugins, state.observed, state.snapshots)
        state.operator = operator
        state.on_config_change = operator.wake
        state.registry = metrics.create_registry(state)
        # Its last pass may be under way, and must not hold up what still streams.
        stack.push_async_callback(asyncio.to_thread, operator.stop)
        operator.start()
        yield


def _note_error(
    app: FastAPI,
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    """The server only logs what a lifespan raises; who started it wants to know."""
    app.state.start_error = error

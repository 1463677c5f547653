"""The HTTP server below the control plane: uvicorn, ended without waiting for open streams."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator, Sequence

import structlog
import uvicorn
from fastapi import FastAPI

from dataplane.service_manager import notify

_log = structlog.get_logger(__name__)
_MAX_HEAD_BYTES = 64 * 2**10
_CLOSE_SECONDS = 3
"""How long requests may take to end; who watches a stream reconnects later anyway."""


class StartError(Exception):
    """The application could not be started; the cause is the exception of its lifespan."""


class ControlPlaneServer(uvicorn.Server):
    """Ends on SIGTERM and SIGINT, and tells the application's streams so before it waits."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _tell_service_manager()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.closing.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again afterwards, so that a clean end looks like none.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.force_exit = self.should_exit  # asked twice: somebody is impatient
        self.should_exit = True


def run(app: FastAPI, listener: socket.socket, trusted_proxies: Sequence[str] = ()) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError when the application did not start.

    What X-Forwarded-For and -Proto say counts only from `trusted_proxies`, addresses or networks.
    """
    config = uvicorn.Config(
        app,
        # It bounds a request's head, as httptools does not; here nothing waits for the rest.
        http="h11",
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )
    server = ControlPlaneServer(config, app)
    try:
        asyncio.run(server.serve(sockets=[listener]))
    except SystemExit as error:  # how uvicorn says that the lifespan raised
        cause: BaseException = app.state.start_error or error
        raise StartError(str(cause)) from cause


def _tell_service_manager() -> None:
    """That requests are answered from now on."""
    try:
        notify("READY=1")
    except OSError as error:
        _log.warning("the service manager cannot be told", error=str(error))

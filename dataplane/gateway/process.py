"""The life of one gateway process: take over, serve, and hand over or drain.

    start --knock--> catch up --accept--> serving --SIGTERM, SIGINT--> draining ----+--> flush, end
                                             |                                      |
                                             +--a successor serves--> leaving ------+

Draining refuses new requests; leaving serves those that come on the connections that are there,
because new connections go to the successor, or wait in the service manager's socket for one.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import structlog

from dataplane.gateway.app import GatewayApp, create_app
from dataplane.gateway.handover import Door, Grant, Predecessor
from dataplane.gateway.server import GatewayServer, address_of, create_server, listen
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.status import GatewayStatus, write_status
from dataplane.gateway.successor import Successors
from dataplane.service_manager import notify, watchdog_seconds

_LOOK_SECONDS = 0.5

_log = structlog.get_logger(__name__)


class StartError(Exception):
    """The gateway could not start; the message says why."""


@dataclass(slots=True, eq=False)
class GatewayProcess:
    """Runs once."""

    settings: GatewaySettings
    gateway_id: str
    listener: socket.socket
    is_listener_kept: bool
    """The service manager keeps the socket open: what connects while nobody accepts, waits."""
    predecessor: Predecessor | None
    successors: Successors
    _app: GatewayApp = field(init=False)
    _server: GatewayServer = field(init=False)
    _door: Door = field(init=False)
    _host: str = field(init=False)
    _status: GatewayStatus = field(init=False)
    _serving: asyncio.Task[None] = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _is_asked_to_end: bool = False
    _is_hurried: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Serve until asked to end, or until a successor serves.

        Raises StartError.
        """
        grant = None if self.predecessor is None else self.predecessor.grant
        self._app = create_app(self.settings, self.gateway_id, grant)
        self._host = self.listener.getsockname()[0]
        self._app.address = self._advertised(self.listener)
        self._server = create_server(self._app, self._begin)
        self._door = Door(
            self.settings.state_dir,
            self.listener.dup(),  # the server closes its own when it leaves
            describe=self._grant,
            let_go=lambda: self._beside(self._leave_and_end(self.settings.leave_seconds), "leave"),
            holding=lambda: self._app.gateway.fleet.held(),
        )
        self._heed_signals()
        self._serving = asyncio.create_task(self._server.serve(sockets=[self.listener]))
        try:
            await self._serving
        except asyncio.CancelledError:
            _log.info("ended before it listened")
        except SystemExit as error:  # how uvicorn says that the lifespan raised
            raise StartError(str(self._app.start_error or error)) from self._app.start_error
        finally:
            await self._door.close()
            for task in self._tasks:
                task.cancel()

    async def _begin(self) -> None:
        """Connections are taken: say so to all who wait for it."""
        await self._door.open()
        self._status = GatewayStatus(
            gateway_id=self.gateway_id,
            name=self.settings.name,
            pid=os.getpid(),
            address=self._app.address,
            probe_key=self._app.gateway.probe_key,
        )
        write_status(self.settings.state_dir, self._status)
        # Before the predecessor ends: the service manager must not take its end for ours.
        _tell_service_manager(f"MAINPID={os.getpid()}", "READY=1", f"STATUS={self._app.address}")
        if self.predecessor is not None:
            self._follow(self.predecessor)
        self._beside(self._keep_watch(), "watch")
        _log.info("listening", address=self._app.address)

    def _grant(self) -> Grant:
        return msgspec.structs.replace(self._app.grant(), is_listener_kept=self.is_listener_kept)

    def _follow(self, predecessor: Predecessor) -> None:
        _log.info("taking over", predecessor=predecessor.grant.gateway_id)
        try:
            predecessor.tell_serving(self.gateway_id)
        except OSError:
            _log.warning("the predecessor has ended", predecessor=predecessor.grant.gateway_id)
        self._beside(self._watch_predecessor(predecessor), "predecessor")

    async def _watch_predecessor(self, predecessor: Predecessor) -> None:
        await predecessor.watch(self._app.gateway.fleet.set_held_elsewhere)
        _log.info("the predecessor has ended", predecessor=predecessor.grant.gateway_id)
        await self._app.look_after_the_dead()

    async def _keep_watch(self) -> None:
        """Tell the service manager that the event loop turns, and notice dead successors."""
        limit = watchdog_seconds()
        pause = _LOOK_SECONDS if limit is None else min(_LOOK_SECONDS, limit / 3)
        while True:
            if limit is not None:
                _tell_service_manager("WATCHDOG=1")
            if self.successors.has_failed() and not self._server.server_state.is_leaving:
                self._note_failed_successor()
            await asyncio.sleep(pause)

    def _note_failed_successor(self) -> None:
        """For whoever asked for one and waits."""
        num_failed = self._status.num_successors_failed + 1
        self._status = replace(self._status, num_successors_failed=num_failed)
        write_status(self.settings.state_dir, self._status)

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, self._start_successor)

    def _start_successor(self) -> None:
        if self._server.server_state.is_leaving or self._is_asked_to_end:
            _log.warning("no successor is started: this process is ending")
        else:
            self.successors.start()

    def _end(self) -> None:
        if not self._server.started:
            self._serving.cancel()  # nothing was taken over, nobody is connected
        elif self._is_asked_to_end:  # asked twice: somebody is impatient
            self._server.should_exit = True
        elif self._server.server_state.is_leaving:
            self._is_hurried.set()
        elif self.is_listener_kept:
            self._beside(self._leave_and_end(self.settings.drain_seconds), "leave")
        else:
            self._beside(self._drain_and_end(), "drain")
        self._is_asked_to_end = True

    async def _drain_and_end(self) -> None:
        _tell_service_manager("STOPPING=1")
        await self._app.drain()
        self._server.should_exit = True

    async def _leave_and_end(self, bound_seconds: float) -> None:
        """Serve what is connected to its end, within the bound; then end what is left.

        Asked to end meanwhile, it gives what is left the time that a drain gives.
        """
        _log.info("leaving: new connections go to a successor", address=self._app.address)
        self._app.leave()
        self._server.leave()
        await self._open_private()
        left = asyncio.create_task(self._server.left(), name="left")
        hurried = asyncio.create_task(self._is_hurried.wait(), name="hurried")
        await asyncio.wait(
            {left, hurried}, timeout=bound_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if hurried.done() and not left.done():
            await asyncio.wait({left}, timeout=self.settings.drain_seconds)
        if not left.done():
            _log.warning("ending what did not end by itself")
        for task in (left, hurried):
            task.cancel()
        await self._app.drain(0)
        self._server.should_exit = True

    async def _open_private(self) -> None:
        """An address of its own, so that its requests can still be looked at."""
        try:
            private = listen(self._host, 0, self.settings.send_buffer_bytes)
            await self._server.open_private(private)
        except OSError as error:
            _log.warning("nobody can look at this process any more", error=str(error))
            return
        self._app.address = self._advertised(private)
        _log.info("listening for who looks after it", address=self._app.address)

    def _advertised(self, listener: socket.socket) -> str:
        """The base URL by which others reach `listener`."""
        return address_of(listener, self.settings.advertise_host)

    def _beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background work failed", work=task.get_name(), exc_info=error)
            if task.get_name() in ("leave", "drain"):  # nothing else would end this process
                self._server.should_exit = True


def _tell_service_manager(*words: str) -> None:
    try:
        notify(*words)
    except OSError as error:
        _log.warning("the service manager cannot be told", words=words, error=str(error))

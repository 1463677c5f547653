"""The door of a replica: gateways' connections in, one engine loop behind them.

All of this runs on the event loop, except `send`, which the engine's thread calls. A
connection owns its requests: when it is lost, or does not read what it is sent, its
requests are cancelled, so that neither blocks nor buffers are held for nobody.
"""

import asyncio
import contextlib
import itertools
import logging
import threading
from collections import defaultdict
from dataclasses import dataclass, field

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineCapabilities, EngineEvent, EngineRequest
from dataplane.host.cached_prefixes import CachedPrefixes
from dataplane.host.engine_loop import EngineLoop
from dataplane.host.mailbox import Addressed, Cancellation, Departure, Pausing, Submission
from dataplane.host.wire import (
    PROTOCOL_VERSION,
    Cancel,
    ClientMessage,
    EventBatch,
    Greeting,
    Hello,
    Pause,
    PrefixQuery,
    PrefixReply,
    ReplicaMessage,
    RequestEvent,
    StatsQuery,
    StatsReply,
    Submit,
    WireError,
    encode_frame,
    read_client_message,
)
from dataplane.lifecycle import Disposition, EventKind

GREETING_TIMEOUT_SECONDS = 5.0
HANDOVER_TIMEOUT_SECONDS = 1.0
RELEASE_TIMEOUT_SECONDS = 2.0
FLUSH_TIMEOUT_SECONDS = 1.0
MAX_UNREAD_BYTES = 2**20

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Connection:
    """One gateway."""

    connection_id: int
    client: str
    writer: asyncio.StreamWriter
    open_requests: set[str] = field(default_factory=set)
    """Submitted and not released."""

    def write(self, message: ReplicaMessage) -> None:
        self.writer.write(encode_frame(message))

    @property
    def num_unread_bytes(self) -> int:
        return self.writer.transport.get_write_buffer_size()


class HostServer:
    """Serves one engine loop to any number of gateways."""

    def __init__(
        self,
        *,
        replica_id: str,
        capabilities: EngineCapabilities,
        vocab_size: int,
        engine_loop: EngineLoop,
        clock: MonotonicClock,
        cached_prefixes: CachedPrefixes | None = None,
        fencing_token: int = 0,
        max_unread_bytes: int = MAX_UNREAD_BYTES,
    ) -> None:
        """`clock` is the core's. `max_unread_bytes` may wait for one gateway to read before it
        is given up; what the kernel buffers comes on top."""
        self._hello = Hello(PROTOCOL_VERSION, replica_id, capabilities, fencing_token)
        self._vocab_size = vocab_size
        self._engine_loop = engine_loop
        self._clock = clock
        self._cached_prefixes = cached_prefixes
        self._max_unread_bytes = max_unread_bytes
        self._connections: dict[int, _Connection] = {}
        self._connection_ids = itertools.count()
        self._handlers: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self._all_released = asyncio.Event()
        self._all_released.set()
        self._server: asyncio.Server | None = None
        self._event_loop = asyncio.get_running_loop()

    async def start(self, host: str) -> str:
        """Listen on a free port; returns host:port."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    def send(self, batch: list[Addressed], *, waits: bool) -> None:
        """The engine loop's outbox. With `waits` it returns when the frames are with the sockets.

        The wait is bounded: an event loop that hangs must not hang the engine too.
        """
        handed_over = threading.Event()
        self._event_loop.call_soon_threadsafe(self._deliver, batch, handed_over)
        if waits and not handed_over.wait(HANDOVER_TIMEOUT_SECONDS):
            _log.warning(
                "events wait for the event loop longer than %g s", HANDOVER_TIMEOUT_SECONDS
            )

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, let those that run end, and end after `seconds` what is left."""
        self._is_draining = True
        if await self._wait_until_released(seconds):
            return
        for connection in self._connections.values():
            for request_id in connection.open_requests:
                self._engine_loop.commands.put(
                    Cancellation(
                        connection_id=connection.connection_id,
                        request_id=request_id,
                        disposition=Disposition.ERROR,
                        received_at=self._clock(),
                        reason="the replica was stopped before the answer ended",
                        status_code=503,
                    )
                )
        if not await self._wait_until_released(RELEASE_TIMEOUT_SECONDS):
            _log.error("requests are not released %g s after their end", RELEASE_TIMEOUT_SECONDS)

    async def close(self) -> None:
        """Flush what was written, within a bound, and hang up."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            with contextlib.suppress(TimeoutError, OSError):  # it does not read, or is gone
                async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                    connection.writer.close()
                    await connection.writer.wait_closed()
            connection.writer.transport.abort()
        if self._handlers:
            await asyncio.wait(self._handlers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One gateway, from its greeting to its end."""
        task = asyncio.current_task()
        assert task is not None  # start_server runs this in a task of its own
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        connection = None
        why = "it hung up"
        try:
            connection = await self._greet(reader, writer)
            while (message := await read_client_message(reader)) is not None:
                self._take(connection, message)
        except (WireError, OSError) as error:
            why = str(error)
        except TimeoutError:
            why = f"no greeting within {GREETING_TIMEOUT_SECONDS:g} s"
        finally:
            if connection is None:
                _log.warning("refused a connection: %s", why)
                writer.transport.abort()
            else:
                self._drop(connection, why)

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Connection:
        async with asyncio.timeout(GREETING_TIMEOUT_SECONDS):
            greeting = await read_client_message(reader)
        if not isinstance(greeting, Greeting):
            raise WireError("it did not greet")
        connection = _Connection(next(self._connection_ids), greeting.client, writer)
        connection.write(self._hello)  # also to another version: the caller can say what is wrong
        if greeting.protocol_version != PROTOCOL_VERSION:
            raise WireError(f"it speaks protocol {greeting.protocol_version}")
        self._connections[connection.connection_id] = connection
        _log.info("%s connected", connection.client)
        return connection

    def _take(self, connection: _Connection, message: ClientMessage) -> None:
        match message:
            case Submit(request):
                self._submit(connection, request)
            case Cancel(request_id, disposition):
                self._engine_loop.commands.put(
                    Cancellation(
                        connection_id=connection.connection_id,
                        request_id=request_id,
                        disposition=disposition,
                        received_at=self._clock(),
                    )
                )
            case Pause(request_id, is_paused):
                self._engine_loop.commands.put(
                    Pausing(
                        connection_id=connection.connection_id,
                        request_id=request_id,
                        is_paused=is_paused,
                    )
                )
            case StatsQuery(query_id):
                connection.write(StatsReply(query_id, self._engine_loop.stats()))
            case PrefixQuery(query_id, cursor):
                prefixes = self._cached_prefixes
                report = None if prefixes is None else prefixes.report(cursor)
                connection.write(PrefixReply(query_id, report))
            case Greeting():
                raise WireError("it greeted twice")

    def _submit(self, connection: _Connection, request: EngineRequest) -> None:
        received_at = self._clock()
        if request.request_id in connection.open_requests:
            raise WireError(f"it submitted request {request.request_id} twice")
        refusal = self._find_refusal(request)
        if refusal is not None:
            connection.write(_refuse(request, refusal))
            return
        connection.open_requests.add(request.request_id)
        self._all_released.clear()
        self._engine_loop.commands.put(
            Submission(
                connection_id=connection.connection_id, request=request, received_at=received_at
            )
        )

    def _find_refusal(self, request: EngineRequest) -> EngineEvent | None:
        """FINISHED for a request that must not reach the core; None when it may."""
        if self._is_draining:
            return _finished(Disposition.ERROR, 503, "the replica is draining; use another one")
        fault = find_fault(request, self._vocab_size)
        return None if fault is None else _finished(Disposition.INVALID, 400, fault)

    def _deliver(self, batch: list[Addressed], handed_over: threading.Event) -> None:
        try:
            items_by_connection: dict[int, list[RequestEvent]] = defaultdict(list)
            for addressed in batch:
                items_by_connection[addressed.connection_id].append(addressed.item)
            for connection_id, items in items_by_connection.items():
                connection = self._connections.get(connection_id)
                if connection is not None:  # else it left, and nobody wants to know
                    self._write_events(connection, items)
        finally:
            handed_over.set()

    def _write_events(self, connection: _Connection, items: list[RequestEvent]) -> None:
        connection.write(EventBatch(tuple(items)))
        connection.open_requests.difference_update(
            item.request_id for item in items if item.event.kind is EventKind.RELEASED
        )
        self._note_released()
        num_unread = connection.num_unread_bytes
        if num_unread > self._max_unread_bytes:
            self._drop(connection, f"it left {num_unread} bytes unread")

    def _drop(self, connection: _Connection, why: str) -> None:
        """Hang up and cancel what the connection owns. Safe to call twice."""
        if self._connections.pop(connection.connection_id, None) is None:
            return
        _log.info(
            "%s left with %d open requests: %s",
            connection.client,
            len(connection.open_requests),
            why,
        )
        self._engine_loop.commands.put(
            Departure(connection_id=connection.connection_id, received_at=self._clock())
        )
        connection.writer.transport.abort()
        self._note_released()

    def _note_released(self) -> None:
        if not any(connection.open_requests for connection in self._connections.values()):
            self._all_released.set()

    async def _wait_until_released(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._all_released.wait()
        except TimeoutError:
            return False
        return True


def find_fault(request: EngineRequest, vocab_size: int) -> str | None:
    """What would break a core that trusts its input; None when nothing would."""
    if not request.prompt_token_ids:
        return "the prompt has no tokens"
    if not 0 <= min(request.prompt_token_ids) <= max(request.prompt_token_ids) < vocab_size:
        return f"the prompt holds token ids outside the vocabulary of {vocab_size}"
    if request.sampling.max_output_tokens < 1:
        return f"max_output_tokens is {request.sampling.max_output_tokens}; ask for 1 or more"
    if "" in request.sampling.stop:
        return "an empty stop string would end every answer before it begins"
    return None


def _finished(disposition: Disposition, status_code: int, reason: str) -> EngineEvent:
    return EngineEvent(
        kind=EventKind.FINISHED,
        offset=0.0,
        disposition=disposition,
        status_code=status_code,
        reason=reason,
    )


def _refuse(request: EngineRequest, finished: EngineEvent) -> EventBatch:
    """Both ends of a request that never held anything."""
    released = EngineEvent(kind=EventKind.RELEASED, offset=0.0)
    return EventBatch(
        (RequestEvent(request.request_id, finished), RequestEvent(request.request_id, released))
    )

"""The gateway's side of a replica host: one connection, many requests on it.

One task reads the connection and sorts events into a queue for each request, so that a
request whose iterator nobody reads holds up no other: its queue is bounded, because the
replica is told to give it no steps meanwhile. When the connection drops, every open iterator
raises at once.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import os
from collections.abc import AsyncGenerator

from dataplane.engine import (
    EngineCapabilities,
    EngineEvent,
    EngineRequest,
    EngineStats,
    EngineUnavailableError,
)
from dataplane.event_queue import EventQueue
from dataplane.host.wire import (
    PROTOCOL_VERSION,
    Cancel,
    ClientMessage,
    EventBatch,
    FrameTooLargeError,
    Greeting,
    Hello,
    Pause,
    RequestEvent,
    StatsQuery,
    StatsReply,
    Submit,
    WireError,
    encode_frame,
    read_replica_message,
)
from dataplane.lifecycle import Disposition, EventKind
from dataplane.policy import ReplicaEndpoint

CONNECT_TIMEOUT_SECONDS = 5.0
STATS_TIMEOUT_SECONDS = 5.0


class HostClient:
    """EngineClient of a replica that runs under `dataplane.host`.

    After a loss `connect` may be called again; requests never outlive their connection.
    """

    def __init__(self, endpoint: ReplicaEndpoint) -> None:
        self._endpoint = endpoint
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `connect`."""
        if self._link is None:
            raise RuntimeError("capabilities are known only after connect()")
        return self._link.capabilities

    @property
    def is_connected(self) -> bool:
        """A submit would reach the replica, as far as is known now."""
        return self._link is not None and self._link.lost is None

    async def connect(self) -> None:
        """Reach the replica and make sure that it is the one. Does nothing when connected."""
        async with self._connecting:
            if not self.is_connected:
                self._link = await _open_link(self._endpoint)

    async def submit(self, request: EngineRequest) -> AsyncGenerator[EngineEvent, None]:
        """Start one attempt, sent when the first event is asked for.

        Closing the iterator before its end cancels the request.
        """
        link = self._require_link()
        events = await link.open(request.request_id)
        is_released = False
        try:
            # The host takes token ids; the client's own JSON would only cost transit.
            refusal = link.send(Submit(dataclasses.replace(request, body={})))
            if refusal is not None:
                is_released = True
                for event in _refused(refusal):
                    yield event
            while not is_released:
                event = await events.get()
                is_released = event.kind is EventKind.RELEASED
                yield event
        finally:
            link.close_request(request.request_id, is_released)

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        """Ask for the end of a request; its iterator goes on to FINISHED and RELEASED."""
        if self._link is not None:
            self._link.send(Cancel(request_id, disposition))

    async def stats(self) -> EngineStats:
        """The engine's latest snapshot, with its age."""
        return await self._require_link().ask_stats()

    async def close(self) -> None:
        """Hang up; the host cancels what still runs for this connection."""
        if self._link is not None:
            await self._link.close()

    def _require_link(self) -> "_Link":
        if self._link is None:
            raise EngineUnavailableError(self._endpoint.replica_id, "it was never connected")
        if self._link.lost is not None:
            raise EngineUnavailableError(self._endpoint.replica_id, self._link.lost)
        return self._link


class _Link:
    """One connection that said Hello. `lost` tells why it is gone, once it is."""

    def __init__(
        self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.capabilities = hello.capabilities
        self.lost: str | None = None
        self._events_by_request: dict[str, EventQueue] = {}
        self._release_by_given_up: dict[str, asyncio.Event] = {}
        self._replica_id = hello.replica_id
        self._reader = reader
        self._writer = writer
        self._queries: dict[int, asyncio.Future[EngineStats]] = {}
        self._query_ids = itertools.count()
        self._task = asyncio.create_task(self._read(), name=f"replica {hello.replica_id}")

    async def open(self, request_id: str) -> EventQueue:
        """The queue of a new request. An id is free again when its last use is released.

        Raises ValueError when somebody still reads that request, EngineUnavailableError
        when the connection is lost.
        """
        if request_id in self._release_by_given_up:
            await self._release_by_given_up[request_id].wait()
        if self.lost is not None:
            raise EngineUnavailableError(self._replica_id, self.lost)
        if request_id in self._events_by_request:
            raise ValueError(f"request {request_id} is still open on replica {self._replica_id}")

        def pause(is_paused: bool) -> None:
            self.send(Pause(request_id, is_paused))

        events = self._events_by_request[request_id] = EventQueue(pause)
        return events

    def close_request(self, request_id: str, is_released: bool) -> None:
        """Nobody reads the request any more; cancel it when it is not over."""
        del self._events_by_request[request_id]
        if not is_released and self.lost is None:
            self._release_by_given_up[request_id] = asyncio.Event()
            self.send(Cancel(request_id, Disposition.CANCELLED))

    def send(self, message: ClientMessage) -> FrameTooLargeError | None:
        """Queue a frame for the socket; returns the error when it is too large.

        Nothing is awaited: prompts are bounded by admission, and a host that stops
        reading is found by its silence.
        """
        try:
            frame = encode_frame(message)
        except FrameTooLargeError as error:
            return error
        if self.lost is None:
            self._writer.write(frame)
        return None

    async def ask_stats(self) -> EngineStats:
        query_id = next(self._query_ids)
        future = asyncio.get_running_loop().create_future()
        self._queries[query_id] = future
        try:
            self.send(StatsQuery(query_id))
            async with asyncio.timeout(STATS_TIMEOUT_SECONDS):
                stats: EngineStats = await future
                return stats
        except TimeoutError as error:
            raise EngineUnavailableError(
                self._replica_id, f"no stats within {STATS_TIMEOUT_SECONDS:g} s"
            ) from error
        finally:
            self._queries.pop(query_id, None)

    async def close(self) -> None:
        self._lose("the gateway closed the connection")
        self._task.cancel()
        await asyncio.wait({self._task})
        self._writer.transport.abort()  # a replica that stopped reading would never let it close
        with contextlib.suppress(OSError):  # the peer may be gone before we are
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while (message := await read_replica_message(self._reader)) is not None:
                self._dispatch(message)
        except (OSError, WireError) as error:
            self._lose(f"the connection broke: {error}")
        else:
            self._lose("it closed the connection")
        finally:
            self._lose("reading its events failed")  # of no effect after one of the above

    def _dispatch(self, message: Hello | EventBatch | StatsReply) -> None:
        match message:
            case EventBatch(events):
                for item in events:
                    self._sort(item)
            case StatsReply(query_id, stats):
                future = self._queries.get(query_id)
                if future is not None and not future.done():
                    future.set_result(stats)
            case Hello():
                raise WireError("a second hello")

    def _sort(self, item: RequestEvent) -> None:
        events = self._events_by_request.get(item.request_id)
        if events is not None:
            events.put(item.event)
        elif item.request_id not in self._release_by_given_up:
            raise WireError(f"an event of request {item.request_id}, which it was not given")
        elif item.event.kind is EventKind.RELEASED:
            self._release_by_given_up.pop(item.request_id).set()

    def _lose(self, why: str) -> None:
        if self.lost is not None:
            return
        self.lost = why
        self._writer.close()
        for release in self._release_by_given_up.values():
            release.set()
        for events in self._events_by_request.values():
            events.put(EngineUnavailableError(self._replica_id, why))
        for future in self._queries.values():
            if not future.done():
                future.set_exception(EngineUnavailableError(self._replica_id, why))


async def _open_link(endpoint: ReplicaEndpoint) -> _Link:
    host, _, port = endpoint.address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                hello = await _greet(endpoint, reader, writer)
            except BaseException:
                writer.close()
                raise
    except TimeoutError as error:
        raise EngineUnavailableError(
            endpoint.replica_id, f"no hello within {CONNECT_TIMEOUT_SECONDS:g} s"
        ) from error
    except (OSError, ValueError, WireError) as error:
        raise EngineUnavailableError(
            endpoint.replica_id, f"connecting to {endpoint.address}: {error}"
        ) from error
    return _Link(hello, reader, writer)


async def _greet(
    endpoint: ReplicaEndpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Hello:
    writer.write(encode_frame(Greeting(PROTOCOL_VERSION, client=f"pid {os.getpid()}")))
    hello = await read_replica_message(reader)
    if not isinstance(hello, Hello):
        raise WireError("it hung up instead of saying hello" if hello is None else "no hello")
    if hello.protocol_version != PROTOCOL_VERSION:
        raise WireError(
            f"it speaks protocol {hello.protocol_version}, this gateway {PROTOCOL_VERSION}; "
            f"run both from one release"
        )
    if hello.replica_id != endpoint.replica_id:
        raise WireError(f"replica {hello.replica_id} answers there; the port was reused")
    return hello


def _refused(error: FrameTooLargeError) -> tuple[EngineEvent, EngineEvent]:
    """A request that the wire cannot carry ends before it was sent."""
    finished = EngineEvent(
        kind=EventKind.FINISHED,
        disposition=Disposition.INVALID,
        status_code=413,
        reason=f"the prompt is too large to send to a replica: {error}",
    )
    return finished, EngineEvent(kind=EventKind.RELEASED)

"""One connection to a replica, and the requests on it.

What comes is taken where the event loop hands it over, without a task in between: the events of
a step reach the queues of their requests at once.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from dataplane.engine import EngineCapabilities, EngineStats, EngineUnavailableError
from dataplane.event_queue import EventQueue
from dataplane.host.wire import (
    Cancel,
    ClientMessage,
    EventBatch,
    FrameTooLargeError,
    Hello,
    Pause,
    PrefixQuery,
    PrefixReply,
    ReplicaMessage,
    ReplicaMessages,
    RequestEvent,
    StatsQuery,
    StatsReply,
    WireError,
    encode_frame,
)
from dataplane.lifecycle import Disposition, EventKind
from dataplane.prefix_report import PrefixReport

STATS_TIMEOUT_SECONDS = 5.0


class HostLink(asyncio.Protocol):
    """`lost` tells why it is gone, once it is. Made inside a running event loop."""

    def __init__(self, replica_id: str) -> None:
        self.lost: str | None = None
        self.hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        """The first message. Fails with WireError where none came."""
        self._replica_id = replica_id
        self._transport: asyncio.Transport | None = None
        self._messages = ReplicaMessages()
        self._ended = asyncio.Event()
        self._unanswered: str | None = None
        """What it was asked in vain: for that it is given up."""
        self._events_by_request: dict[str, EventQueue] = {}
        self._pauses_by_request: dict[str, set[str]] = {}
        """Why each is given no steps; what is not paused is not here."""
        self._release_by_given_up: dict[str, asyncio.Event] = {}
        self._queries: dict[int, asyncio.Future[Any]] = {}
        self._query_ids = itertools.count()

    # asyncio hands BaseTransport to every protocol, and uvloop's own are no subclass of it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._messages.feed(data):
                self._take(message)
        except WireError as error:
            self._lose(f"the connection broke: {error}")
        except Exception:
            self._lose("reading its events failed")
            raise

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._lose(f"the connection broke: {exc}")
        elif self._messages.is_inside:
            self._lose("the connection broke: the connection ended inside a frame")
        else:
            self._lose("it closed the connection")
        self._ended.set()

    @property
    def capabilities(self) -> EngineCapabilities:
        """Once it said hello."""
        return self.hello.result().capabilities

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

        def pause(is_full: bool) -> None:
            self._pause(request_id, is_full, "its queue is full")

        events = self._events_by_request[request_id] = EventQueue(pause)
        return events

    def pause(self, request_id: str, is_paused: bool) -> None:
        """Have an open request be given no steps, or (False) steps again."""
        if request_id in self._events_by_request:
            self._pause(request_id, is_paused, "it was asked for")

    def _pause(self, request_id: str, is_paused: bool, why: str) -> None:
        """It goes on when nothing speaks against it any more."""
        reasons = self._pauses_by_request.setdefault(request_id, set())
        was_paused = bool(reasons)
        if is_paused:
            reasons.add(why)
        else:
            reasons.discard(why)
        if bool(reasons) != was_paused:
            self.send(Pause(request_id, bool(reasons)))
        if not reasons:
            del self._pauses_by_request[request_id]

    def close_request(self, request_id: str, is_released: bool) -> None:
        """Nobody reads the request any more; cancel it when it is not over."""
        del self._events_by_request[request_id]
        self._pauses_by_request.pop(request_id, None)
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
        if self.lost is None and self._transport is not None:
            self._transport.write(frame)
        return None

    async def ask_stats(self) -> EngineStats:
        """Raises EngineUnavailableError, also where no answer comes in time."""
        stats: EngineStats = await self._ask(StatsQuery, "stats")
        return stats

    async def ask_prefixes(self, cursor: str | None) -> PrefixReport | None:
        """As `ask_stats`."""
        report: PrefixReport | None = await self._ask(
            lambda query_id: PrefixQuery(query_id, cursor), "word of its prefix cache"
        )
        return report

    async def _ask(self, query: Callable[[int], ClientMessage], what: str) -> Any:
        query_id = next(self._query_ids)
        future = asyncio.get_running_loop().create_future()
        self._queries[query_id] = future
        try:
            self.send(query(query_id))
            async with asyncio.timeout(STATS_TIMEOUT_SECONDS):
                return await future
        except TimeoutError as error:
            self._unanswered = f"no {what} within {STATS_TIMEOUT_SECONDS:g} s"
            raise EngineUnavailableError(self._replica_id, self._unanswered) from error
        finally:
            self._queries.pop(query_id, None)

    def abandon(self) -> None:
        """Hang up at once."""
        self._lose(self._unanswered or "the gateway closed the connection")
        if self._transport is not None:
            self._transport.abort()  # a replica that stopped reading would never let it close

    async def close(self) -> None:
        """Hang up, and wait until the socket is closed."""
        self.abandon()
        if self._transport is not None:
            await self._ended.wait()

    def _take(self, message: ReplicaMessage) -> None:
        if isinstance(message, EventBatch):
            for item in message.events:
                self._sort(item)
        elif not self.hello.done():
            if not isinstance(message, Hello):
                raise WireError("no hello")
            self.hello.set_result(message)
        elif isinstance(message, StatsReply):
            self._answer(message.query_id, message.stats)
        elif isinstance(message, PrefixReply):
            self._answer(message.query_id, message.report)
        else:
            raise WireError("a second hello")

    def _answer(self, query_id: int, told: EngineStats | PrefixReport | None) -> None:
        future = self._queries.get(query_id)
        if future is not None and not future.done():
            future.set_result(told)

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
        if self._transport is not None:
            self._transport.close()
        if not self.hello.done():
            self.hello.set_exception(WireError(f"no hello: {why}"))
        for release in self._release_by_given_up.values():
            release.set()
        for events in self._events_by_request.values():
            events.put(EngineUnavailableError(self._replica_id, why))
        for future in self._queries.values():
            if not future.done():
                future.set_exception(EngineUnavailableError(self._replica_id, why))

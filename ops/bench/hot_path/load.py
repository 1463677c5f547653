"""The load client: sends at the times that were planned, whatever has become of earlier calls.

What it sends late, and how late its own event loop turns, is measured in the same run: a client
that falls behind would otherwise be told as a slow server.
"""

import asyncio
import socket
import statistics
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dataplane.clock import MonotonicClock, monotonic_clock
from ops.bench.hot_path.client_connection import ClientConnection
from ops.bench.hot_path.figures import percentile
from ops.bench.hot_path.stream_call import End, StreamCall

_BEAT_SECONDS = 0.005
_MAX_LATE_SECONDS = 0.003
"""A client whose sends or whose loop come later than this at the 99th percentile is behind."""
_MAX_BUSY = 0.9
_GRACE_SECONDS = 15.0
_SMALL_BUFFER_BYTES = 4096
"""Of a slow reader."""


@dataclass(slots=True, eq=False)
class LoadResult:
    """What one run of the client saw, and how well the client itself did."""

    calls: list[StreamCall]
    chunk_delays: "array[float]"
    """Seconds, of every chunk of every stream."""
    beat_delays: "array[float]" = field(default_factory=lambda: array("d"))
    """Seconds by which the client's own loop turned late."""
    busy: float = 0.0
    """Share of its core that the client used."""
    num_connections: int = 0
    """Made for it or before it."""

    @property
    def send_delays(self) -> list[float]:
        """Seconds after their time, of all that were sent."""
        return [delay for call in self.calls if (delay := call.send_delay()) is not None]

    @property
    def num_whole(self) -> int:
        """Streams that came to their end."""
        return sum(call.end is End.WHOLE and not call.is_refused for call in self.calls)

    @property
    def mean_stream_seconds(self) -> float | None:
        """From a request's first byte to its answer's last; None where nothing ended."""
        lasted = [
            call.ended_at - call.sent_at
            for call in self.calls
            if call.ended_at is not None and call.sent_at is not None
        ]
        return statistics.fmean(lasted) if lasted else None

    def why_behind(self) -> str | None:
        """Why the figures say more of the client than of the server; None where they do not."""
        faults = []
        send = percentile(self.send_delays, 0.99) if self.send_delays else 0.0
        if send > _MAX_LATE_SECONDS:
            faults.append(f"1 % of the requests were sent {1e3 * send:.1f} ms late or later")
        beat = percentile(self.beat_delays, 0.99) if self.beat_delays else 0.0
        if beat > _MAX_LATE_SECONDS:
            faults.append(f"its event loop was {1e3 * beat:.1f} ms late at the 99th percentile")
        if self.busy > _MAX_BUSY:
            faults.append(f"it used {100 * self.busy:.0f} % of its core")
        return "; ".join(faults) or None


@dataclass(slots=True, eq=False)
class LoadClient:
    """Sends calls to one address over connections that are used again where the server lets it."""

    address: str
    """host:port."""
    pace_seconds: float
    clock: MonotonicClock = monotonic_clock
    slow_every: int = 0
    """Every so manieth stream is read slowly; 0: none."""
    slow_pause_seconds: float = 0.25
    on_ended: Callable[[StreamCall], None] = lambda call: None
    chunk_delays: "array[float]" = field(default_factory=lambda: array("d"))
    _idle: list[ClientConnection] = field(default_factory=list)
    _all: set[ClientConnection] = field(default_factory=set)
    _num_made: int = 0
    _num_open: int = 0
    _none_open: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, calls: Iterable[StreamCall], *, keeps_calls: bool = True) -> LoadResult:
        """Send all, each at its `scheduled_at` seconds from now, and wait for the answers.

        Without `keeps_calls` only `on_ended` hears of them: a long run would not fit in memory.
        """
        self.chunk_delays = array("d")
        result = LoadResult(calls=[], chunk_delays=self.chunk_delays)
        began, busy = self.clock(), time.process_time()
        beat = asyncio.create_task(self._beat(result.beat_delays))
        try:
            async for call in self._send_all(calls, began):
                if keeps_calls:
                    result.calls.append(call)
            await self._wait_for_answers()
        finally:
            beat.cancel()
        result.busy = (time.process_time() - busy) / (self.clock() - began)
        result.num_connections = self._num_made
        return result

    @property
    def num_open(self) -> int:
        """Calls that were sent and have not ended."""
        return self._num_open

    async def warm_up(self, num_connections: int) -> None:
        """Open connections before anything is timed."""
        self._idle += [await self._connect() for _ in range(num_connections - len(self._idle))]

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._idle.clear()

    async def _send_all(
        self, calls: Iterable[StreamCall], began: float
    ) -> AsyncIterator[StreamCall]:
        opening = set[asyncio.Task[None]]()
        for call in calls:
            call.scheduled_at += began
            await self._sleep_until(call.scheduled_at)
            self._num_open += 1
            self._none_open.clear()
            connection = self._take_idle(call)
            if connection is not None:
                connection.send(call)
            else:
                task = asyncio.create_task(self._send_on_new(call))
                opening.add(task)
                task.add_done_callback(opening.discard)
            yield call
        if opening:
            await asyncio.wait(opening)

    async def _sleep_until(self, at: float) -> None:
        early = at - self.clock()
        if early > 0:
            await asyncio.sleep(early)

    def _is_slow(self, call: StreamCall) -> bool:
        return bool(self.slow_every) and call.number % self.slow_every == 0

    def _take_idle(self, call: StreamCall) -> ClientConnection | None:
        if self._is_slow(call):
            return None  # its connection is its own
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_lost:
                return connection
        return None

    async def _send_on_new(self, call: StreamCall) -> None:
        try:
            connection = await self._connect(is_slow=self._is_slow(call))
        except OSError:
            self._note_ended(call)  # refused a connection: it has no answer
            return
        if self._is_slow(call):
            connection.read_slowly(self.slow_pause_seconds)
        connection.send(call)

    async def _connect(self, *, is_slow: bool = False) -> ClientConnection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: ClientConnection(
                clock=self.clock,
                pace_seconds=self.pace_seconds,
                put_delays=self._put_delays,
                on_idle=self._idle.append,
                on_ended=self._note_ended,
                on_lost=self._all.discard,
            ),
            sock=await self._open_socket(is_slow=is_slow),
        )
        self._all.add(connection)
        self._num_made += 1
        return connection

    async def _open_socket(self, *, is_slow: bool) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        sock = socket.socket()
        sock.setblocking(False)
        if is_slow:  # known before the handshake: the server's kernel buffers by it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER_BYTES)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        except BaseException:
            sock.close()
            raise
        return sock

    def _put_delays(self, delays: Sequence[float]) -> None:
        self.chunk_delays.extend(delays)

    def _note_ended(self, call: StreamCall) -> None:
        self._num_open -= 1
        if not self._num_open:
            self._none_open.set()
        self.on_ended(call)

    async def _wait_for_answers(self) -> None:
        """Those that have none after the grace keep `End.NONE`."""
        if self._num_open:
            try:
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._none_open.wait()
            except TimeoutError:
                self.close()

    async def _beat(self, delays: "array[float]") -> None:
        while True:
            due = self.clock() + _BEAT_SECONDS
            await asyncio.sleep(_BEAT_SECONDS)
            delays.append(self.clock() - due)

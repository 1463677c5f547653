"""The stub's engine: so many streams at once, each with its chunks at a fixed pace.

It selects nothing and computes nothing. A stream's first chunk comes as soon as it has a slot
and its prompt's time is over, chunk i follows `i` paces later on the stream's own schedule:
a late one makes none of the later ones late.
"""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from dataplane.clock import MonotonicClock
from ops.bench.hot_path.timer_wheel import TimerWheel


class Door(Protocol):
    """Who asked for streams. Everything is called on the event loop, and must not wait."""

    def put_first(self, stream: "PacedStream", now: float) -> None:
        """Its first chunk."""
        ...

    def put_next(self, stream: "PacedStream", now: float) -> None:
        """One more."""
        ...

    def put_end(self, stream: "PacedStream", now: float) -> None:
        """It has all its chunks."""
        ...

    def flush(self) -> None:
        """Nothing more is put for now."""
        ...


@dataclass(slots=True, eq=False)
class PacedStream:
    """One answer."""

    key: object
    """Its door's own."""
    door: Door
    num_chunks: int
    prefill_seconds: float = 0.0
    received_at: float = 0.0
    starts_at: float = 0.0
    num_sent: int = 0
    is_over: bool = False
    paused_at: float | None = None
    is_parked: bool = False
    """A chunk of it was due while it was paused."""


class PacedStreams:
    """All streams of one stub."""

    def __init__(
        self, pace_seconds: float, num_slots: int, clock: MonotonicClock, tick_seconds: float
    ) -> None:
        self._pace_seconds = pace_seconds
        self._num_slots = num_slots
        self._clock = clock
        self._wheel = TimerWheel[PacedStream](tick_seconds, clock())
        self._waiting: deque[PacedStream] = deque()
        self.num_running = 0

    @property
    def num_waiting(self) -> int:
        """Streams without a slot."""
        return sum(not stream.is_over for stream in self._waiting)

    def begin(self, stream: PacedStream) -> None:
        """Take a stream on: at once, or when a slot is free."""
        stream.received_at = now = self._clock()
        if self.num_running < self._num_slots:
            self._hold_slot(stream, now)
            self._send_due(stream, now)
            stream.door.flush()
        else:
            self._waiting.append(stream)

    def end_early(self, stream: PacedStream) -> None:
        """Nobody wants more of it."""
        if stream.is_over:
            return
        stream.is_over = True
        if stream not in self._waiting:
            self._free_slot(self._clock())

    def age_of(self, stream: PacedStream) -> float:
        """Seconds since it was taken on."""
        return self._clock() - stream.received_at

    def pause(self, stream: PacedStream) -> bool:
        """Nothing more of it comes until it goes on. It keeps its slot. False: it is so already."""
        if stream.paused_at is not None:
            return False
        stream.paused_at = self._clock()
        return True

    def go_on(self, stream: PacedStream) -> bool:
        """Its schedule goes on where it was. False: it was not paused."""
        if stream.paused_at is None:
            return False
        stream.starts_at += self._clock() - stream.paused_at
        stream.paused_at = None
        if stream.is_parked and not stream.is_over:
            stream.is_parked = False
            self._wheel.add(stream, stream.starts_at + stream.num_sent * self._pace_seconds)
        return True

    def run_due(self) -> None:
        """Send all chunks that are due. Called at every tick."""
        now = self._clock()
        doors = dict[Door, None]()
        for stream in self._wheel.take_due(now):
            stream.is_parked = stream.paused_at is not None
            if not stream.is_over and not stream.is_parked:
                doors[stream.door] = None
                self._send_due(stream, now)
        for door in doors:
            door.flush()

    def _hold_slot(self, stream: PacedStream, now: float) -> None:
        self.num_running += 1
        stream.starts_at = now + stream.prefill_seconds

    def _send_due(self, stream: PacedStream, now: float) -> None:
        while (due_at := stream.starts_at + stream.num_sent * self._pace_seconds) <= now:
            put = stream.door.put_next if stream.num_sent else stream.door.put_first
            stream.num_sent += 1
            put(stream, now)
            if stream.num_sent == stream.num_chunks:
                stream.is_over = True
                stream.door.put_end(stream, now)
                self._free_slot(now)
                return
        self._wheel.add(stream, due_at)

    def _free_slot(self, now: float) -> None:
        self.num_running -= 1
        while self._waiting:
            stream = self._waiting.popleft()
            if not stream.is_over:
                self._hold_slot(stream, now)
                self._wheel.add(stream, stream.starts_at)
                return

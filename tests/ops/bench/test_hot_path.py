"""The stub engine paces as it is told, and the load client hides nothing: else the figures of the
hot path's benches would say more of them than of the gateway."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from dataplane.clock import monotonic_clock
from dataplane.engine import EngineEvent, EngineRequest, SamplingParams
from dataplane.host.client import HostClient
from dataplane.lifecycle import EventKind
from dataplane.policy import ReplicaEndpoint
from ops.bench.hot_path.arrivals import Arrivals, arrival_times
from ops.bench.hot_path.capacity import CapacityReport, LevelSearch
from ops.bench.hot_path.chat_calls import chat_calls, chat_payload
from ops.bench.hot_path.chunks import ENDING, FIRST_WRITE, TEXT, WRITE
from ops.bench.hot_path.figures import percentile, spread
from ops.bench.hot_path.http_connection import HttpConnection
from ops.bench.hot_path.load import LoadClient, LoadResult
from ops.bench.hot_path.openai_door import OpenAIDoor
from ops.bench.hot_path.paced_streams import PacedStream, PacedStreams
from ops.bench.hot_path.replica_door import ReplicaTerms, replica_doors
from ops.bench.hot_path.stream_call import End
from ops.bench.hot_path.timer_wheel import TimerWheel

Result = TypeVar("Result")
PACE = 0.005
TERMS = ReplicaTerms(replica_id="stub-0", num_slots=2, num_chunks=4, prefill_seconds_per_token=0.0)


class Listener:
    """A door that writes down what is put, and when."""

    def __init__(self) -> None:
        self.put: list[tuple[object, str, float]] = []

    def put_first(self, stream: PacedStream, now: float) -> None:
        self.put.append((stream.key, "first", now))

    def put_next(self, stream: PacedStream, now: float) -> None:
        self.put.append((stream.key, "next", now))

    def put_end(self, stream: PacedStream, now: float) -> None:
        self.put.append((stream.key, "end", now))

    def flush(self) -> None:
        pass

    def times_of(self, key: object) -> list[float]:
        return [at for each, what, at in self.put if each == key and what != "end"]


class Stub:
    """Streams on a clock that the test turns."""

    def __init__(self, num_slots: int) -> None:
        self.now = 0.0
        self.door = Listener()
        self.streams = PacedStreams(PACE, num_slots, lambda: self.now, tick_seconds=0.001)

    def begin(self, key: str, num_chunks: int) -> PacedStream:
        stream = PacedStream(key=key, door=self.door, num_chunks=num_chunks)
        self.streams.begin(stream)
        return stream

    def turn_to(self, at: float) -> None:
        self.now = at
        self.streams.run_due()


def run_ticks(stub: Stub, until: float) -> None:
    for tick in range(round(stub.now * 1000), round(until * 1000) + 1):
        stub.turn_to(tick / 1000)


def test_a_wheel_hands_nothing_out_early_and_nothing_more_than_a_tick_late() -> None:
    wheel = TimerWheel[str](tick_seconds=0.001, now=0.0)
    wheel.add("due between two ticks", 0.0035)
    assert wheel.take_due(0.0034) == []
    assert wheel.take_due(0.0040) == ["due between two ticks"]
    wheel.add("due long ago", 0.001)
    assert wheel.take_due(0.0050) == ["due long ago"]


def test_chunks_keep_the_pace_and_a_late_one_makes_none_of_the_later_ones_late() -> None:
    stub = Stub(num_slots=8)
    stub.begin("a", num_chunks=5)
    run_ticks(stub, 0.005)
    stub.turn_to(0.016)  # the process was held up: two more are due
    run_ticks(stub, 0.030)
    assert [round(at, 3) for at in stub.door.times_of("a")] == [0.0, 0.005, 0.016, 0.016, 0.020]
    assert stub.door.put[-1][1] == "end"
    assert stub.streams.num_running == 0


def test_a_paused_stream_brings_nothing_and_goes_on_at_its_pace_where_it_was() -> None:
    stub = Stub(num_slots=8)
    paused = stub.begin("a", num_chunks=4)
    run_ticks(stub, 0.006)
    stub.streams.pause(paused)
    run_ticks(stub, 0.030)
    assert len(stub.door.times_of("a")) == 2
    stub.streams.go_on(paused)
    run_ticks(stub, 0.050)
    assert [round(at, 3) for at in stub.door.times_of("a")] == [0.0, 0.005, 0.034, 0.039]
    assert stub.streams.num_running == 0


def test_streams_beyond_the_slots_wait_and_one_that_leaves_lets_the_next_in() -> None:
    stub = Stub(num_slots=1)
    first = stub.begin("first", num_chunks=50)
    gone = stub.begin("gone", num_chunks=2)
    stub.begin("second", num_chunks=2)
    assert (stub.streams.num_running, stub.streams.num_waiting) == (1, 2)
    stub.streams.end_early(gone)
    stub.streams.end_early(first)
    run_ticks(stub, 0.010)
    assert stub.door.times_of("gone") == []
    assert len(stub.door.times_of("second")) == 2
    assert (stub.streams.num_running, stub.streams.num_waiting) == (0, 0)


def test_gateways_get_every_event_of_the_contract_from_the_stub() -> None:
    async def submit(replica: str, http: str) -> list[EngineEvent]:
        endpoint = ReplicaEndpoint(replica_id="stub-0", engine="paged", address=replica)
        client = HostClient(endpoint)
        await client.connect()
        request = EngineRequest(
            request_id="r",
            attempt=0,
            endpoint="/v1/completions",
            sampling=SamplingParams(max_output_tokens=100),
            prompt_token_ids=(1, 2, 3),
        )
        events = [event async for event in client.submit(request)]
        assert (await client.stats()).num_running == 0
        await client.close()
        return events

    events = asyncio.run(with_stub(submit))
    assert [event.kind for event in events] == [
        EventKind.SCHEDULED,
        EventKind.PREFILL_CHUNK,
        EventKind.FIRST_TOKEN,
        *[EventKind.TOKENS] * 3,
        EventKind.FINISHED,
        EventKind.RELEASED,
    ]
    assert [event.text for event in events[2:6]] == [TEXT] * 4
    assert (events[1].num_tokens, events[6].num_output_tokens) == (3, 4)
    times = [event.offset for event in events if event.offset is not None]
    assert times == sorted(times)
    assert times[5] >= 3 * PACE


def test_the_client_sees_every_chunk_of_the_stub() -> None:
    async def drive(replica: str, http: str) -> LoadResult:
        return await load(http, num_calls=3)

    result = asyncio.run(with_stub(drive))
    assert result.num_whole == 3
    assert len(result.chunk_delays) == 3 * 4
    assert [call.num_chunks for call in result.calls] == [4] * 3
    assert min(result.chunk_delays) == 0  # the most punctual one


def test_the_client_counts_chunks_that_were_joined_and_streams_that_were_cut() -> None:
    def answer(connection: HttpConnection) -> None:
        connection.write(FIRST_WRITE + WRITE + WRITE)
        if b"word" in connection.body:
            connection.write(ENDING)
        else:
            connection.close()

    async def drive() -> LoadResult:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(answer), "127.0.0.1", 0)
        async with server:
            client = LoadClient(address=address_of(server), pace_seconds=PACE)
            words = [b"word", b"none"]
            calls = chat_calls(b"", [0.0, 0.02])
            for call, word in zip(calls, words, strict=True):
                head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"
                call.payload = head + word
            result = await client.run(calls)
            client.close()
            return result

    result = asyncio.run(drive())
    assert [(call.end, call.num_chunks) for call in result.calls] == [(End.WHOLE, 3), (End.CUT, 3)]
    # All three came at once: the third was the only one in time, if chunks are a pace apart.
    assert [round(delay, 3) for delay in result.chunk_delays[:3]] == [0.010, 0.005, 0.0]


def test_a_client_that_falls_behind_says_so_and_keeps_the_delays() -> None:
    async def drive(replica: str, http: str) -> LoadResult:
        asyncio.get_running_loop().call_later(0.03, time.sleep, 0.1)
        return await load(http, num_calls=10)

    result = asyncio.run(with_stub(drive))
    assert max(result.send_delays) > 0.05
    why = result.why_behind()
    assert why is not None
    assert "sent" in why


def test_arrivals_do_not_depend_on_completions_and_keep_their_rate() -> None:
    even = arrival_times(Arrivals.EVEN, rate=4.0, seconds=1.0, seed=1)
    assert even == [0.0, 0.25, 0.5, 0.75]
    random = arrival_times(Arrivals.POISSON, rate=1000.0, seconds=10.0, seed=1)
    assert random == sorted(random)
    assert abs(len(random) - 10_000) < 500


def test_a_search_finds_the_highest_level_that_is_kept() -> None:
    search = LevelSearch(first=10.0)
    while (level := search.next_level()) is not None:
        search.note(level, is_kept=level <= 37.0)
    assert 34.0 <= search.best <= 37.0
    disturbed = LevelSearch(first=10.0)
    disturbed.note(10.0, is_kept=False)
    assert disturbed.next_level() == 10.0
    nothing = LevelSearch(first=10.0)
    while (level := nothing.next_level()) is not None:
        nothing.note(level, is_kept=False)
    assert nothing.best == 0


def test_a_level_that_failed_while_the_client_was_behind_is_no_verdict_on_the_subject() -> None:
    search = LevelSearch(first=10.0)
    search.note(10.0, is_kept=True)
    search.note(16.0, is_kept=True, client_behind="late")
    for _ in range(2):
        level = search.next_level()
        assert level is not None
        search.note(level, is_kept=False, client_behind="late")
    assert search.next_level() is None
    assert search.best == 16.0
    assert search.why_undecided == "late"


def test_no_share_is_told_of_subjects_of_which_one_was_limited_by_the_client() -> None:
    at_once = {"gateway": spread([40.0]), "pass-through": spread([50.0])}
    known = CapacityReport(at_once=at_once, client_behind={}, runs=())
    assert known.share("gateway", "pass-through") == 0.8
    limited = replace(known, client_behind={"pass-through": "late"})
    assert limited.share("gateway", "pass-through") is None


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([3.0], 0.5) == 3.0
    assert percentile([1.0, 2.0], 0.99) == 2.0


async def load(address: str, num_calls: int) -> LoadResult:
    client = LoadClient(address=address, pace_seconds=PACE)
    payload = chat_payload(address, "Hello?", max_tokens=64)
    result = await client.run(chat_calls(payload, [0.01 * n for n in range(num_calls)]))
    client.close()
    return result


async def with_stub(work: Callable[[str, str], Awaitable[Result]]) -> Result:
    """What `work` makes of a stub's two addresses, replica's and HTTP's."""
    loop = asyncio.get_running_loop()
    streams = PacedStreams(PACE, TERMS.num_slots, monotonic_clock, tick_seconds=0.001)
    native = await loop.create_server(replica_doors(TERMS, streams), "127.0.0.1", 0)
    http = await loop.create_server(OpenAIDoor(TERMS.num_chunks, streams).connect, "127.0.0.1", 0)
    async with native, http:
        ticking = asyncio.create_task(tick_forever(streams))
        try:
            return await work(address_of(native), address_of(http))
        finally:
            ticking.cancel()


async def tick_forever(streams: PacedStreams) -> None:
    while True:
        await asyncio.sleep(0.001)
        streams.run_due()


def address_of(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"{host}:{port}"

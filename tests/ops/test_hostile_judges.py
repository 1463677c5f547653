"""Whoever judges what hostile scenarios did would see a defect: each is planted, and seen."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dataplane import names
from dataplane.engine import EngineStats
from dataplane.host.wire import ReplicaMessage, StatsReply, encode_frame, read_replica_message
from ops.hostile.calls import Call, share_within
from ops.hostile.records import find_gaps
from ops.hostile.relay import LyingRelay, relaying
from ops.hostile.scrapes import Scraper
from ops.scraped_counts import counts_by_label
from tests.dataplane.golden_request import golden_record

Result = TypeVar("Result")
BALANCED = {
    "arrived": 9,
    "invalid": 1,
    "undecided": 1,
    "rejected": 2,
    "admitted": 5,
    "active": 1,
    "finished": 4,
}


def scraped(
    look: Callable[[Scraper], Awaitable[None]],
    in_metrics: dict[str, int] = BALANCED,
    in_requests: dict[str, int] = BALANCED,
    num_live: int = 2,
    held: int = 0,
    broken: tuple[str, ...] = (),
) -> Scraper:
    """One that has looked at a gateway that tells this."""
    metric, label = names.GATEWAY_REQUESTS, names.LABEL_STATE
    lines = [f'{metric}{{{label}="{state}"}} {count}.0' for state, count in in_metrics.items()]
    lines.append(f'{names.GATEWAY_HELD}{{{names.LABEL_KIND}="slots"}} {held}.0')

    async def metrics(request: Request) -> Response:
        return PlainTextResponse("\n".join(lines))

    async def requests(request: Request) -> Response:
        return JSONResponse({"counts": in_requests, "requests": [{}] * num_live})

    async def holdings(request: Request) -> Response:
        return JSONResponse({"broken": list(broken)})

    told = {
        "/metrics": metrics,
        "/internal/requests": requests,
        "/internal/holdings": holdings,
    }
    app = Starlette(routes=[Route(path, tell) for path, tell in told.items()])

    async def run() -> Scraper:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            scraper = Scraper(http, settle_seconds=0.05)
            await look(scraper)
        return scraper

    return asyncio.run(run())


def test_counts_that_balance_on_both_surfaces_are_nothing_to_tell() -> None:
    assert scraped(Scraper.look).wrong == []
    assert scraped(Scraper.settle).wrong == []


@pytest.mark.parametrize("state", ["arrived", "rejected", "active"])
def test_a_request_too_many_is_seen_on_either_surface(state: str) -> None:
    more = BALANCED | {state: BALANCED[state] + 1}
    assert scraped(Scraper.look, in_metrics=more).wrong[0].startswith("metrics: ")
    assert scraped(Scraper.look, in_requests=more).wrong[0].startswith("requests: ")


def test_a_live_list_that_lacks_one_is_seen() -> None:
    [wrong] = scraped(Scraper.look, num_live=1).wrong
    assert "counts more than the 1 in flight" in wrong


def test_what_stays_held_and_what_the_gateway_itself_finds_broken_is_seen() -> None:
    assert scraped(Scraper.settle, held=1).wrong == ["still held: {'slots': 1}"]
    assert scraped(Scraper.settle, broken=("2 slots are free",)).wrong == ["2 slots are free"]


def test_counts_are_added_up_over_all_other_labels_and_no_other_metric() -> None:
    text = (
        'refused{a="x",reason="full",z="1"} 2.0\nrefused{reason="full"} 3.0\n'
        'refused{reason="late",z="2"} 1.0\nrefused_created{reason="full"} 9.0\n'
    )
    assert counts_by_label(text, "refused", "reason") == {"full": 5, "late": 1}
    assert counts_by_label(text, "let_in", "reason") == {}


def test_a_share_of_calls_is_a_value_that_one_had_and_of_none_there_is_none() -> None:
    calls = [Call(prompt="", max_tokens=1, sent_at=0.0, ended_at=float(n)) for n in range(1, 101)]
    assert share_within(calls, 0.99, lambda each: each.seconds) == 99.0
    assert share_within(calls[:1], 0.5, lambda each: each.seconds) == 1.0
    with pytest.raises(ValueError, match="nothing"):
        share_within([], 0.99, lambda each: each.seconds)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((0, 1, 2), None),
        ((2, 0, 1), None),
        ((0, 2), "numbers [1] are missing"),
        ((1, 2), "numbers [0] are missing"),
        ((0, 1, 1), "[1] come again"),
    ],
)
def test_a_record_that_is_missing_or_comes_again_is_seen(
    numbers: tuple[int, ...], told: str | None
) -> None:
    gaps = find_gaps([golden_record(gateway_sequence=number) for number in numbers])
    assert (told is None) == (not gaps)
    assert told is None or told in gaps[0]


class Replica:
    """Says the same to everybody who connects, and hears nothing."""

    def __init__(self, *said: ReplicaMessage) -> None:
        self.said = said
        self.heard = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for message in self.said:
            writer.write(encode_frame(message))
        self.heard = await reader.read(2**16)
        writer.close()


def through_relay(
    replica: Replica,
    work: Callable[[LyingRelay, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Result]],
) -> Result:
    async def run() -> Result:
        server = await asyncio.start_server(replica.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, relaying(f"{host}:{port}") as relay:
            reader, writer = await asyncio.open_connection(*relay.address.split(":"))
            try:
                async with asyncio.timeout(5):
                    return await work(relay, reader, writer)
            finally:
                writer.close()

    return asyncio.run(run())


def test_a_relay_tells_the_truth_or_the_lie_and_passes_on_what_the_gateway_says() -> None:
    truth = StatsReply(1, EngineStats(age_seconds=0.5, num_running=3))
    replica = Replica(truth, truth)

    async def listen(
        relay: LyingRelay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> list[Any]:
        lies = iter([truth, StatsReply(1, EngineStats(age_seconds=-1.0))])
        relay.lie = lambda message: next(lies)
        heard = [await read_replica_message(reader) for _ in range(2)]
        writer.write(b"as it is")
        return [*heard, await read_replica_message(reader)]

    first, second, end = through_relay(replica, listen)
    assert first == truth
    assert second.stats.age_seconds == -1.0
    assert end is None  # the replica hung up once it had heard something, and so did the relay
    assert replica.heard == b"as it is"


def test_a_relay_that_ends_hangs_up_on_both_sides() -> None:
    replica = Replica(StatsReply(1, EngineStats(age_seconds=0.5)))

    async def leave(
        relay: LyingRelay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        await read_replica_message(reader)
        await relay.hang_up()
        return await reader.read()

    assert through_relay(replica, leave) == b""
    assert replica.heard == b""

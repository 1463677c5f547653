import asyncio
import json
import statistics
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from ops.calibration.traffic import Answer, Arrival, Lengths, Mix, at_once, poisson, send

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_MIX = Mix(Lengths(48, 0.9, 2, 300), Lengths(16, 0.7, 1, 64))


def test_arrivals_are_poisson_at_the_rate_that_was_asked_for() -> None:
    arrivals = poisson(_MIX, rate=5.0, seconds=400, seed=1)
    gaps = [later.at - earlier.at for earlier, later in pairwise(arrivals)]
    assert len(arrivals) == pytest.approx(2000, rel=0.1)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)
    assert arrivals[-1].at < 400


def test_lengths_have_their_median_and_stay_within_bounds() -> None:
    crowd = at_once(_MIX, 2000, seed=2)
    prompts = [arrival.num_prompt_tokens for arrival in crowd]
    assert statistics.median(prompts) == pytest.approx(48, rel=0.1)
    assert 2 <= min(prompts) < 6
    assert max(prompts) == 300
    assert all(1 <= arrival.num_output_tokens <= 64 for arrival in crowd)


def test_the_same_seed_is_the_same_traffic() -> None:
    assert poisson(_MIX, 5.0, 20, seed=3) == poisson(_MIX, 5.0, 20, seed=3)
    assert poisson(_MIX, 5.0, 20, seed=3) != poisson(_MIX, 5.0, 20, seed=4)


async def _stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As many chunks as were asked for, the second of them in two pieces."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    count = json.loads(await reader.readexactly(length))["max_tokens"]
    writer.write(b'HTTP/1.1 200 OK\r\n\r\ndata: {"n": 0}\n\ndat')
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.write(b"".join(b'data: {"n": 1}\n\n' for _ in range(count - 1)).removeprefix(b"dat"))
    writer.write(b"data: [DONE]\n\n")
    writer.close()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    writer.close()


async def _answers(handler: Handler, arrivals: list[Arrival]) -> list[Answer]:
    async with await asyncio.start_server(handler, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return await send(f"http://127.0.0.1:{port}", "any", arrivals, seed=1)


def test_every_chunk_of_an_answer_has_its_time() -> None:
    arrivals = [Arrival(0.0, 5, 3), Arrival(0.05, 5, 2)]
    first, second = asyncio.run(_answers(_stream, arrivals))
    assert [len(each.chunks_at) for each in (first, second)] == [3, 2]
    assert second.sent_at >= 0.05
    for answer in (first, second):
        assert answer.sent_at < answer.chunks_at[0] < answer.chunks_at[1]


def test_an_answer_that_is_no_stream_is_told() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionError, match="503 Service Unavailable")):
        asyncio.run(_answers(_refuse, [Arrival(0.0, 5, 3)]))

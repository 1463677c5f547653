"""Bodies of all requests together are bounded, and what was held comes back."""

import asyncio
import json
import tracemalloc
from pathlib import Path

import pytest

from dataplane.gateway.body_budget import BodyBudget
from dataplane.gateway.openai_api.bodies import read_json
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import WITH_TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def test_a_lease_grows_within_the_budget_and_gives_all_back() -> None:
    budget = BodyBudget(max_bytes=10)
    with budget.lease() as first, budget.lease() as second:
        assert first.reach(6)
        assert first.reach(4), "it holds more already"
        assert not second.reach(5)
        assert second.reach(4)
        assert budget.num_bytes == 10
        assert not first.reach(7)
        assert budget.num_bytes == 10
    assert budget.num_bytes == 0


async def test_a_body_beyond_the_budget_is_503_until_another_request_ends(tmp_path: Path) -> None:
    replica = add_replica("a")
    async with running_gateway(
        tmp_path, snapshot(deployment("a")), max_bodies_bytes=5_000
    ) as gateway:
        bodies = gateway.app.gateway.bodies
        replica.hold()
        large = say("x" * 1_500, max_tokens=1)
        first = asyncio.create_task(gateway.http.post(CHAT, json=large))
        await until(lambda: len(replica.submitted) == 1)
        refused = await gateway.http.post(CHAT, json=large)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "bodies_exceed_memory"
        assert refused.headers["retry-after"] == "1"
        replica.resume()
        assert (await first).is_success
        await until(lambda: bodies.num_bytes == 0)
        assert (await gateway.http.post(CHAT, json=large)).is_success
        await gateway.settle()


async def test_a_body_that_is_only_announced_holds_nothing(tmp_path: Path) -> None:
    add_replica("a")
    async with running_gateway(
        tmp_path, snapshot(deployment("a")), max_bodies_bytes=200_000
    ) as gateway:
        host, port = gateway.url.removeprefix("http://").split(":")
        head = f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 150000\r\n\r\n"
        waiting = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        for _, writer in waiting:
            writer.write(head.encode())
        await until(lambda: len(gateway.app.gateway.registry) == len(waiting))
        assert gateway.app.gateway.bodies.num_bytes == 0
        assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).is_success
        _, writer = waiting[0]
        writer.write(b"x" * 1000)
        await until(lambda: gateway.app.gateway.bodies.num_bytes == 1000)
        for _, writer in waiting:
            writer.close()
        await gateway.settle()
        assert gateway.app.gateway.bodies.num_bytes == 0


async def test_what_a_body_was_parsed_to_is_held_too(tmp_path: Path) -> None:
    replica = add_replica("a", capabilities=WITH_TOOLS)
    async with running_gateway(tmp_path, snapshot(deployment("a"))) as gateway:
        replica.hold()
        tools = [
            {"type": "function", "function": {"name": "f", "parameters": {"x": [{}] * 20_000}}}
        ]
        body = json.dumps(say(tools=tools, max_tokens=1)).encode()
        asked = asyncio.create_task(gateway.http.post(CHAT, content=body))
        await until(lambda: len(replica.submitted) == 1)
        assert gateway.app.gateway.bodies.num_bytes > 15 * len(body)
        replica.resume()
        assert (await asked).is_success
        await gateway.settle()


@pytest.mark.parametrize(
    "value",
    ["é" * 50_000, list(range(50_000)), [{}] * 50_000, {str(n): [n / 7] for n in range(20_000)}],
    ids=["text", "numbers", "empty objects", "keys"],
)
def test_a_bodys_memory_is_told_as_it_is(value: object) -> None:
    raw = json.dumps({"model": "m", "prompt": value}, ensure_ascii=False).encode()
    tracemalloc.start()
    try:
        body = read_json(raw)
        really, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 * really < body.num_bytes < 2 * really

"""Many clients at once, and clients that vanish: nothing may stay behind."""

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from dataplane.names import (
    REPLICA_ACTIVE_SEQUENCES,
    REPLICA_KV_BLOCKS_REFERENCED,
    REPLICA_UNRELEASED_REQUESTS,
    REPLICA_WAITING_REQUESTS,
)
from tests.e2e.served import Served, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.timeout(300)]

HELD = (
    REPLICA_ACTIVE_SEQUENCES,
    REPLICA_WAITING_REQUESTS,
    REPLICA_UNRELEASED_REQUESTS,
    REPLICA_KV_BLOCKS_REFERENCED,
)
NUM_STREAMS = 64
NUM_TOKENS = 64


def body(question: str, max_tokens: int) -> dict[str, Any]:
    return {
        "model": "smollm2",
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


async def stream(http: httpx.AsyncClient, question: str, max_tokens: int) -> dict[str, Any]:
    """The usage chunk of one stream, read to its end."""
    last = ""
    async with http.stream(
        "POST", "/v1/chat/completions", json=body(question, max_tokens)
    ) as answer:
        assert answer.status_code == httpx.codes.OK, await answer.aread()
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                last = line.removeprefix("data: ")
    usage: dict[str, Any] = json.loads(last)["usage"]
    return usage


def assert_nothing_is_left(served: Served) -> None:
    """Running, waiting and referenced blocks read 0 within 2 s, and every request is accounted."""

    def is_idle() -> bool:
        values = dict(re.findall(r"^(\w+) (\S+)$", served.metrics_of_replica(), re.M))
        return not any(float(values[name]) for name in HELD)

    wait_for(is_idle, 2, "running, waiting, unreleased and referenced blocks to read 0")
    counts = served.live()["counts"]
    decided = counts["invalid"] + counts["undecided"] + counts["rejected"] + counts["admitted"]
    assert counts["arrived"] == decided
    assert counts["admitted"] == counts["active"] + counts["finished"]
    assert counts["active"] == 0


def test_64_concurrent_streams_of_64_tokens_finish_and_leave_nothing(served: Served) -> None:
    async def run() -> list[dict[str, Any]]:
        async with httpx.AsyncClient(
            base_url=served.gateway_url,
            timeout=240,
            limits=httpx.Limits(max_connections=NUM_STREAMS),
        ) as http:
            return await asyncio.gather(
                *(stream(http, f"Count to {n}.", NUM_TOKENS) for n in range(NUM_STREAMS))
            )

    usages = asyncio.run(run())
    assert [usage["completion_tokens"] for usage in usages] == [NUM_TOKENS] * NUM_STREAMS
    assert_nothing_is_left(served)


def test_a_client_that_vanishes_is_recorded_as_cancelled_and_released(served: Served) -> None:
    async def vanish() -> str:
        async with (
            httpx.AsyncClient(base_url=served.gateway_url, timeout=60) as http,
            http.stream(
                "POST", "/v1/chat/completions", json=body("Tell me a long story.", 500)
            ) as answer,
        ):
            async for line in answer.aiter_lines():
                if '"content"' in line:
                    break
            return answer.headers["x-request-id"]

    request_id = asyncio.run(vanish())

    def record() -> Any:
        answer = httpx.get(f"{served.url}/api/v1/requests/{request_id}")
        return answer.json() if answer.status_code == httpx.codes.OK else None

    detail = wait_for(record, 10, "the record of the vanished client")
    assert '"cancelled"' in json.dumps(detail)
    assert '"released"' in json.dumps(detail)
    assert_nothing_is_left(served)

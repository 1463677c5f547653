"""A gateway with little room for a body and little patience for it, and the errors it tells."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from tests.dataplane.gateway.running_gateway import (
    RunningGateway,
    add_replica,
    deployment,
    find_tokenizer,
    running_gateway,
    snapshot,
)

MAX_BODY_BYTES = 100_000


@contextlib.asynccontextmanager
async def strict_gateway(folder: Path) -> AsyncIterator[RunningGateway]:
    """With one scripted replica behind it."""
    add_replica("a")
    served = snapshot(deployment("a", tokenizer=find_tokenizer()))
    async with running_gateway(
        folder, served, max_body_bytes=MAX_BODY_BYTES, body_seconds=0.2
    ) as running:
        yield running


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error, once its shape is checked."""
    assert response.headers["content-type"] == "application/json"
    assert len(response.headers["x-request-id"]) == 32
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert isinstance(body["error"]["message"], str)
    error: dict[str, Any] = body["error"]
    return error

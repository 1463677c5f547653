"""What is no request that a gateway serves: wrong paths, no HTTP, halves of it."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from dataplane.gateway import server
from dataplane.lifecycle import Disposition
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    add_replica,
    say,
)
from tests.dataplane.gateway.strict_gateway import error_of, strict_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    async with strict_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running
        await running.settle()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/embeddings", 404, "unknown_url"),
        ("POST", "/v1/responses", 404, "unknown_url"),
        ("POST", "/v1/audio/speech", 404, "unknown_url"),
        ("GET", "/", 404, "unknown_url"),
        ("GET", "/v1/models/ghost", 404, "model_not_found"),
        ("POST", f"{CHAT}/", 404, "unknown_url"),
    ],
)
async def test_wrong_paths_and_methods_are_told_apart(
    gateway: RunningGateway, method: str, path: str, status: int, code: str
) -> None:
    response = await gateway.http.request(method, path)
    assert response.status_code == status
    assert error_of(response)["code"] == code
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/responses", "/v1/images/generations"])
async def test_what_is_not_served_is_told_with_what_is(gateway: RunningGateway, path: str) -> None:
    error = error_of(await gateway.http.post(path, json={}))
    assert f"POST {path}" in error["message"]
    assert "serves chat and completions only: POST /v1/chat/completions" in error["message"]
    assert error["type"] == "invalid_request_error"


async def test_head_is_answered_as_get_without_a_body(gateway: RunningGateway) -> None:
    got = await gateway.http.get("/v1/models")
    head = await gateway.http.head("/v1/models")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"]
    assert (await gateway.http.head(CHAT)).status_code == 405


@pytest.mark.parametrize(
    ("path", "allow"), [(CHAT, "POST, OPTIONS"), ("/v1/models", "GET, HEAD, OPTIONS")]
)
async def test_options_tell_what_a_path_takes(
    gateway: RunningGateway, path: str, allow: str
) -> None:
    response = await gateway.http.options(path)
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["allow"] == allow


async def speak(gateway: RunningGateway, data: bytes) -> bytes:
    """Send raw bytes and read until the gateway hangs up."""
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_what_is_no_http_gets_a_proper_400(gateway: RunningGateway) -> None:
    answer = await speak(gateway, b"HELO gateway\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"x-request-id: " in head
    assert json.loads(body)["error"]["code"] == "invalid_http"


async def test_an_endless_head_is_cut_off(gateway: RunningGateway) -> None:
    answer = await speak(gateway, b"GET / HTTP/1.1\r\nx-long: " + b"x" * 70_000)
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nhost: "])
async def test_a_connection_that_never_asks_is_given_up(
    gateway: RunningGateway, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.1)
    assert (await speak(gateway, begun)).startswith(b"HTTP/1.1 408 ")


async def test_a_head_that_does_not_come_spoils_no_answer_before_it(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.05)
    body = json.dumps(say(max_tokens=400, stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    answers = await speak(gateway, head.encode() + body + b"GET /healthz HTTP/1.1\r\n")
    answer, _, last = answers.partition(b"data: [DONE]\n\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " not in answer
    assert b"HTTP/1.1 408 " in last


async def test_a_body_that_does_not_come_is_given_up(gateway: RunningGateway) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\n"
    answer = await speak(gateway, head.encode() + b"{")
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_client_that_leaves_with_half_a_body_is_recorded_as_invalid(
    gateway: RunningGateway,
) -> None:
    num_before = len(gateway.records)
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{{".encode())
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.close()
    record = await gateway.last_record(num_before)
    assert record.disposition is Disposition.INVALID
    assert record.status_code is None
    assert record.reason == "the client left before its request was complete"


async def test_a_client_that_ends_its_sending_side_counts_as_gone(
    gateway: RunningGateway,
) -> None:
    num_before = len(gateway.records)
    host, port = gateway.url.removeprefix("http://").split(":")
    replica = add_replica("a")
    replica.hold()
    body = json.dumps(say(max_tokens=4)).encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )
    writer.write_eof()
    record = await gateway.last_record(num_before)
    assert await reader.read() == b""
    writer.close()
    replica.resume()
    assert record.disposition is Disposition.CANCELLED
    assert record.reason == "the client left"

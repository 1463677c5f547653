"""Whatever is sent, the answer is a matching 4xx in OpenAI's shape, and nothing is left behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataplane.gateway import server
from dataplane.gateway.openai_api.bodies import read_json
from dataplane.gateway.openai_api.declared import EngineTakes
from dataplane.gateway.openai_api.documents import (
    ChatDocument,
    CompletionDocument,
    read_document,
)
from dataplane.gateway.openai_api.errors import ApiError, ApiRefusalError
from dataplane.gateway.openai_api.limits import check_structure, num_values_in
from dataplane.lifecycle import Delivery, Disposition
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    MODEL,
    RunningGateway,
    add_replica,
    deployment,
    find_tokenizer,
    running_gateway,
    say,
    snapshot,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

MAX_BODY_BYTES = 100_000


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    add_replica("a")
    served = snapshot(deployment("a", tokenizer=find_tokenizer()))
    async with running_gateway(
        tmp_path_factory.mktemp("gateway"),
        served,
        max_body_bytes=MAX_BODY_BYTES,
        body_seconds=0.2,
    ) as running:
        yield running
        await running.settle()


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


WRONG_BODIES: list[tuple[bytes, str | None, str]] = [
    (b"", None, "empty_body"),
    (b" \n", None, "empty_body"),
    (b"{", None, "invalid_json"),
    (b"[]", None, "invalid_json"),
    (b"\xff\xfe", None, "invalid_json"),
    (b'{"model": NaN}', None, "invalid_json"),
    (b"[" * 50_000, None, "invalid_json"),
    (b"{}", "model", "missing_parameter"),
    (b'{"model": 7}', "model", "invalid_type"),
    (b'{"model": "%s"}' % (b"m" * 257), "model", "invalid_value"),
]


@pytest.mark.parametrize(("body", "param", "code"), WRONG_BODIES)
async def test_a_body_that_is_no_request_is_told_what_is_wrong(
    gateway: RunningGateway, body: bytes, param: str | None, code: str
) -> None:
    response = await gateway.http.post(CHAT, content=body)
    assert response.status_code == 400
    error = error_of(response)
    assert (error["param"], error["code"]) == (param, code)
    record = await gateway.record_of(response.headers["x-request-id"])
    assert record.disposition is Disposition.INVALID
    assert record.delivery is Delivery.NONE
    assert record.status_code == 400


WRONG_FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": "hi"}, "messages", "valid list"),
    ({"messages": []}, "messages", "at least 1"),
    ({"messages": [{"role": "user"}]}, "messages.0.content", "Missing"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "'system'"),
    ({"messages": [{"role": "user", "content": "x", "nam": "y"}]}, "messages.0.nam", "Unknown"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages.0.content.0.type",
        "'text'",
    ),
    ({"temprature": 1}, "temprature", "Did you mean 'temperature'?"),
    ({"temperature": "hot"}, "temperature", "number"),
    ({"temperature": 2.1}, "temperature", "less than or equal to 2"),
    ({"top_p": 0}, "top_p", "greater than 0"),
    ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
    ({"max_tokens": True}, "max_tokens", "integer"),
    ({"max_tokens": 1.5}, "max_tokens", "integer"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "disagree"),
    ({"stop": [""]}, "stop", "none of them empty"),
    ({"stop": ["a"] * 5}, "stop", "up to 4"),
    ({"n": 17}, "n", "at most 16 answers"),
    ({"n": 0}, "n", "greater than or equal to 1"),
    ({"n": 10**400}, "n", "less than"),
    ({"top_logprobs": 3}, "top_logprobs", "needs 'logprobs' to be true"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
    ({"logprobs": 3}, "logprobs", "boolean"),
    ({"logit_bias": {"1": 101}}, "logit_bias", "numbers from -100 to 100"),
    ({"logit_bias": {"hello": 1}}, "logit_bias", "must map token ids"),
    ({"logit_bias": {"5": 1, "05": -100}}, "logit_bias", "must map token ids"),
    ({"logit_bias": {"999999": 1}}, "logit_bias", "the model has tokens 0 to"),
    ({"seed": 2**80}, "seed", "less than"),
    ({"max_tokens": 2**80}, "max_tokens", "less than"),
    ({"max_completion_tokens": 2**80}, "max_completion_tokens", "less than"),
    ({"top_k": 2**80}, "top_k", "less than"),
    ({"presence_penalty": 0.5}, "presence_penalty", "not supported by this deployment's engine"),
    ({"tools": [{"type": "function"}]}, "tools", "engine, 'scripted': leave it out, or ask"),
    ({"messages": [{"role": "tool", "content": "4"}]}, "messages.0.role", "takes tools"),
    ({"echo": True}, "echo", "put the prompt before the answer yourself"),
    ({"response_format": {"type": "json_object"}}, "response_format", "not supported"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "only allowed when"),
    ({"stream": "yes"}, "stream", "boolean"),
    ({"user": 5}, "user", "string"),
]


@pytest.mark.parametrize(("fields", "param", "words"), WRONG_FIELDS)
async def test_a_wrong_field_is_named_with_the_remedy(
    gateway: RunningGateway, fields: dict[str, Any], param: str, words: str
) -> None:
    response = await gateway.http.post(CHAT, json=say() | fields)
    assert response.status_code == 400
    error = error_of(response)
    assert error["param"] == param
    assert words in error["message"]


async def test_parameters_that_ask_for_nothing_are_accepted(gateway: RunningGateway) -> None:
    neutral = {
        "n": 1,
        "logprobs": False,
        "logit_bias": {},
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "tools": None,
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "user": "someone",
        "stop": None,
        "seed": None,
        "ignore_eos": True,
        "top_k": -1,
    }
    response = await gateway.http.post(CHAT, json=say(max_tokens=1) | neutral)
    assert response.status_code == 200


async def test_an_earlier_answer_can_be_sent_back_with_its_nulls(gateway: RunningGateway) -> None:
    body = say(max_tokens=1)
    body["messages"].append({"role": "assistant", "content": "hi", "refusal": None, "audio": None})
    response = await gateway.http.post(CHAT, json=body)
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("", "invalid_value"),
        ([], "invalid_value"),
        (["a", "b"], "invalid_value"),
        ([1, -1], "invalid_value"),
        ([10**6], "invalid_value"),
        ({"text": "x"}, "invalid_value"),
        ("word " * 520, "context_length_exceeded"),
        ("x" * 90_000, "context_length_exceeded"),
    ],
)
async def test_a_prompt_that_cannot_be_served_is_refused(
    gateway: RunningGateway, prompt: object, code: str
) -> None:
    response = await gateway.http.post(COMPLETIONS, json={"model": MODEL, "prompt": prompt})
    assert response.status_code == 400
    assert error_of(response)["code"] == code


async def test_prompt_and_output_limit_must_fit_together(gateway: RunningGateway) -> None:
    body = {"model": MODEL, "prompt": "one two", "max_tokens": 511}
    response = await gateway.http.post(COMPLETIONS, json=body)
    assert response.status_code == 400
    assert "513 tokens (2 in the prompt, 511 in the completion)" in error_of(response)["message"]
    response = await gateway.http.post(COMPLETIONS, json=body | {"max_tokens": 510})
    assert response.status_code == 200


async def test_an_oversized_body_is_413_whether_or_not_its_length_is_declared(
    gateway: RunningGateway,
) -> None:
    big = b"x" * (MAX_BODY_BYTES + 1)

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(big), 10_000):
            yield big[start : start + 10_000]

    for content in (big, in_pieces()):
        response = await gateway.http.post(CHAT, content=content)
        assert response.status_code == 413
        assert error_of(response)["code"] == "request_too_large"


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity"])
async def test_an_encoded_body_is_415(gateway: RunningGateway, encoding: str) -> None:
    response = await gateway.http.post(
        CHAT, json=say(max_tokens=1), headers={"content-encoding": encoding}
    )
    assert response.status_code == 415
    assert error_of(response)["code"] == "unsupported_content_encoding"
    plain = {"content-encoding": "identity"}
    assert (await gateway.http.post(CHAT, json=say(max_tokens=1), headers=plain)).is_success


async def test_two_tenants_in_one_request_are_none(gateway: RunningGateway) -> None:
    def headers(*tenants: str) -> list[tuple[str, str]]:
        return [("x-pilothouse-tenant", tenant) for tenant in tenants]

    response = await gateway.http.post(
        CHAT, json=say(max_tokens=1), headers=headers("acme", "default")
    )
    assert response.status_code == 400
    assert error_of(response)["code"] == "conflicting_headers"
    twice = await gateway.http.post(CHAT, json=say(max_tokens=1), headers=headers("acme", "acme"))
    assert twice.is_success


HOSTILE_BODIES: list[tuple[bytes, str | None, str, str]] = [
    (b'{"model": "tiny", "model": "big"}', "model", "duplicate_key", "given twice"),
    (b'{"model": "tiny", "a": [{"b": 1, "b": 1}]}', "b", "duplicate_key", "give it once"),
    (b'{"model": "tiny", "user": "\\ud800"}', None, "invalid_json", "half of a surrogate pair"),
    (b'{"model": "tiny", "top_p": 1e999}', None, "invalid_json", "number that is too large"),
    (b'{"model": "tiny", "top_p": Infinity}', None, "invalid_json", "malformed"),
    (
        b'{"model": "tiny", "seed": ' + b"9" * 5000 + b"}",
        None,
        "invalid_json",
        "number that is too large",
    ),
    (b'{"model": "tiny", "mess', None, "invalid_json", "ends in the middle, after 23 bytes"),
    (
        b'{"model": "tiny", "x": ' + b"[" * 100 + b"]" * 100 + b"}",
        "x",
        "invalid_value",
        "64 levels",
    ),
]


@pytest.mark.parametrize(("body", "param", "code", "words"), HOSTILE_BODIES)
async def test_a_hostile_body_is_told_what_is_wrong_with_it(
    gateway: RunningGateway, body: bytes, param: str | None, code: str, words: str
) -> None:
    response = await gateway.http.post(CHAT, content=body)
    assert response.status_code == 400
    error = error_of(response)
    assert (error["param"], error["code"]) == (param, code)
    assert words in error["message"]


A_MESSAGE = {"role": "user", "content": "x"}
TOO_MANY: list[tuple[dict[str, Any], str]] = [
    ({"messages": [A_MESSAGE] * 4097}, "messages"),
    ({"messages": [A_MESSAGE | {"content": [{"type": "text", "text": "x"}] * 257}]},
     "messages.0.content"),
    ({"tools": [{}] * 129}, "tools"),
    ({"logit_bias": {str(token_id): 1 for token_id in range(1025)}}, "logit_bias"),
    ({"response_format": {"a": [1] * 100_001}}, "response_format"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param"), TOO_MANY)
def test_more_values_than_any_client_sends_are_refused_by_their_number(
    fields: dict[str, Any], param: str
) -> None:
    refusal = refusal_of(lambda: read_json(json.dumps(say() | fields).encode()))
    assert refusal is not None
    assert (refusal.status, refusal.param, refusal.code) == (400, param, "too_many_values")


@pytest.mark.parametrize("item", [b"[]", b"{}", b"1", b'""', b'{"a":1}', b'"\\\\"', b'"\\",["'])
def test_a_body_of_far_too_many_values_is_refused_before_they_are_made(item: bytes) -> None:
    raw = b'{"model":"m","x":[' + b",".join([item] * 400_000) + b"]}"
    refusal = refusal_of(lambda: check_structure(raw))
    assert refusal is not None
    assert (refusal.status, refusal.code) == (400, "too_many_values")


@pytest.mark.parametrize("text", ["a, b", "[[{{", 'say "[[,"', "\\,", '\\"{,', "\\\\[,["])
def test_a_long_text_of_commas_and_brackets_is_no_structure(text: str) -> None:
    whole = text * 400_000
    assert read_json(json.dumps({"prompt": whole}).encode()).value == {"prompt": whole}


@given(
    st.recursive(
        st.none() | st.text(alphabet='a\\"[{,') | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a\\",'), inner),
    )
)
def test_no_value_of_a_body_is_missed_by_the_count(value: object) -> None:
    assert num_values_in(json.dumps(value).encode()) >= 1 + num_inside(value)


def num_inside(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return sum(1 + num_inside(inner) for inner in value) if isinstance(value, list) else 0


async def test_a_prompt_of_more_token_ids_than_the_model_takes_is_refused_by_its_length(
    gateway: RunningGateway,
) -> None:
    answer = await gateway.http.post(
        COMPLETIONS, json={"model": MODEL, "prompt": [1] * 20_000, "max_tokens": 1}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "20000" in answer.json()["error"]["message"]


TOO_LONG: list[tuple[dict[str, Any], str]] = [
    ({"stop": "x" * 1025}, "stop"),
    ({"user": "x" * 1025}, "user"),
    ({"messages": [A_MESSAGE | {"name": "x" * 1025}]}, "messages.0.name"),
]


@pytest.mark.parametrize(("fields", "param"), TOO_LONG)
async def test_names_and_stop_strings_are_bounded(
    gateway: RunningGateway, fields: dict[str, Any], param: str
) -> None:
    response = await gateway.http.post(CHAT, json=say() | fields)
    assert response.status_code == 400
    assert error_of(response)["param"] == param


async def test_an_unknown_tenant_is_refused_and_a_known_one_is_recorded(
    gateway: RunningGateway,
) -> None:
    body = say(max_tokens=1)
    refused = await gateway.http.post(CHAT, json=body, headers={"x-pilothouse-tenant": "ghost"})
    assert refused.status_code == 403
    assert error_of(refused)["code"] == "unknown_tenant"
    assert (await gateway.record_of(refused.headers["x-request-id"])).tenant is None
    served = await gateway.http.post(CHAT, json=body, headers={"x-pilothouse-tenant": "acme"})
    record = await gateway.record_of(served.headers["x-request-id"])
    assert record.tenant == "acme"
    assert record.content is None


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def refusal_of(read: Callable[[], object]) -> ApiError | None:
    """What `read` was refused with; any other exception is a bug."""
    try:
        read()
    except ApiRefusalError as refusal:
        return refusal.error
    return None


def takes(*names: str) -> EngineTakes:
    """An engine that declares `names`."""
    return EngineTakes(engine="scripted", parameters=frozenset(names))


FIELDS = sorted({*ChatDocument.model_fields, *CompletionDocument.model_fields, "tools", "echo"})


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_document_is_either_read_or_refused_with_a_400(
    fields: dict[str, Any], is_chat: bool
) -> None:
    whole = say() | {"prompt": "x"} | fields
    kind = ChatDocument if is_chat else CompletionDocument
    whole.pop("prompt" if is_chat else "messages")
    refusal = refusal_of(lambda: read_document(kind, whole, takes()))
    assert refusal is None or (refusal.status == 400 and refusal.param)


@pytest.mark.parametrize("fields", [{"ignore_eos": True}, {"top_k": 5}])
def test_an_extension_needs_an_engine_that_declares_it(fields: dict[str, Any]) -> None:
    (name,) = fields
    body = say() | fields
    refusal = refusal_of(lambda: read_document(ChatDocument, body, takes()))
    assert refusal is not None
    assert refusal.param == name
    assert read_document(ChatDocument, body, takes(name)).needs == {name}
    told_nothing = EngineTakes(engine="scripted", parameters=None)
    assert read_document(ChatDocument, body, told_nothing).needs == {name}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": []}, "tools"),
        ({"functions": []}, "functions"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"parallel_tool_calls": True}, "parallel_tool_calls"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"function_call": "auto"}, "function_call"),
        ({"tools": [], "tool_choice": "none"}, "tools"),
    ],
)
def test_a_wish_about_tools_needs_tools_whatever_the_engine_takes(
    fields: dict[str, Any], param: str
) -> None:
    body = say() | fields
    without = refusal_of(lambda: read_document(ChatDocument, body, takes()))
    able = takes("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call")
    with_tools = refusal_of(lambda: read_document(ChatDocument, body, able))

    assert without is not None
    assert with_tools is not None
    assert (without.status, without.param) == (with_tools.status, with_tools.param) == (400, param)
    assert "leave it out; this deployment's engine, 'scripted', takes no" in without.message
    assert "leave it out, or give at least one in" in with_tools.message


def test_a_choice_among_tools_that_are_given_is_read() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = say() | {"tools": tools, "tool_choice": "auto", "parallel_tool_calls": True}

    assert read_document(ChatDocument, body, takes("tools")).needs == {"tools"}


@given(st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_either_an_object_or_refused_with_a_400(data: bytes) -> None:
    refusal = refusal_of(lambda: read_json(data))
    assert refusal is None or refusal.status == 400

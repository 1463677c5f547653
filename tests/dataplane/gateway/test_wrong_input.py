"""Whatever is sent, the answer is a matching 4xx in OpenAI's shape, and nothing is left behind."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dataplane.lifecycle import Delivery, Disposition
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    MODEL,
    RunningGateway,
    say,
)
from tests.dataplane.gateway.strict_gateway import MAX_BODY_BYTES, error_of, strict_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    async with strict_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running
        await running.settle()


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
    ({"messages": [{"role": "user", "content": "x", "name": "x" * 1025}]}, "messages.0.name"),
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

"""The gateway's routes against a description of them, over real HTTP: whatever is sent, no answer
is a 5xx but a 503 that says to try again, and every error has OpenAI's shape."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    MODEL,
    RunningGateway,
    add_replica,
    deployment,
    find_tokenizer,
    running_gateway,
    snapshot,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 20
"""For each route, of each kind of call."""

ERROR = {
    "description": "an error",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {"message": {"type": "string", "minLength": 1}},
                    }
                },
            }
        }
    },
}
ANSWER = {
    "description": "an answer",
    "content": {
        "application/json": {"schema": {"type": "object", "required": ["object"]}},
        "text/event-stream": {},
    },
}
RESPONSES = {"200": ANSWER} | {
    str(status): ERROR for status in (400, 403, 404, 405, 408, 413, 415, 431, 503)
}
COMMON = {
    "model": {"enum": [MODEL, "chat"]},
    "stream": {"type": ["boolean", "null"]},
    "max_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 12},
    "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
    "top_p": {"type": ["number", "null"], "minimum": 0.1, "maximum": 1},
    "stop": {"type": ["string", "null"], "minLength": 1, "maxLength": 20},
    "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31},
}
MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"enum": ["system", "user", "assistant"]},
        "content": {"type": "string", "minLength": 1, "maxLength": 200},
    },
    "additionalProperties": False,
}
MESSAGES = {"type": "array", "items": MESSAGE, "minItems": 1, "maxItems": 3}
PROMPT = {"type": "string", "minLength": 1, "maxLength": 200}


def describe_post(properties: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": COMMON | properties,
        "required": ["model", *properties],
        "additionalProperties": False,
    }
    headers = [
        {"name": name, "in": "header", "schema": {"type": "string"}}
        for name in ("traceparent", "tracestate")
    ]
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"post": {"requestBody": body, "parameters": headers, "responses": RESPONSES}}


def describe_get(*parameters: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"parameters": list(parameters), "responses": RESPONSES}}


NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "gateway", "version": "1"},
    "paths": {
        CHAT: describe_post({"messages": MESSAGES}),
        COMPLETIONS: describe_post({"prompt": PROMPT}),
        "/v1/models/{name}": describe_get(NAME),
    },
}


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    add_replica("a")
    served = snapshot(deployment("a", tokenizer=find_tokenizer()))
    async with running_gateway(tmp_path_factory.mktemp("gateway"), served) as running:
        yield running


async def test_every_call_is_answered_as_described(gateway: RunningGateway) -> None:
    statuses: set[int] = set()
    found = await asyncio.to_thread(try_everything, gateway.url, statuses)
    assert "\n\n".join(found) == ""
    assert {200, 400, 404} <= statuses
    await gateway.settle()


def try_everything(url: str, statuses: set[int]) -> list[str]:
    found = []
    for result in schemathesis.openapi.from_dict(DESCRIPTION).get_all_operations():
        assert isinstance(result, Ok), result
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            found += try_calls(result.ok(), mode, url, statuses)
    return found


def try_calls(
    operation: APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
    url: str,
    statuses: set[int],
) -> list[str]:
    """What was wrong with the answers; each kind of it once, in its smallest form."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def try_call(case: "Case[Any]") -> None:
        answer = case.call_and_validate(base_url=url, checks=CHECKS, timeout=20)
        statuses.add(answer.status_code)

    try:
        try_call()
    except Unsatisfiable:
        return []  # it takes nothing that could be wrong
    except FailureGroup as failures:
        return [f"{operation.label}: {failure}" for failure in failures.exceptions]
    return []

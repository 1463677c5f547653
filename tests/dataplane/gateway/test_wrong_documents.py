"""Whatever bytes or fields a document has, it is read or refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataplane.gateway.openai_api.bodies import read_json
from dataplane.gateway.openai_api.declared import EngineTakes
from dataplane.gateway.openai_api.documents import (
    ChatDocument,
    CompletionDocument,
    read_document,
)
from dataplane.gateway.openai_api.errors import ApiError, ApiRefusalError
from dataplane.gateway.openai_api.limits import check_structure, num_values_in
from tests.dataplane.gateway.running_gateway import (
    say,
)

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

"""Which request parameters may be passed on to an endpoint, as far as it says what it takes. Pure.

Many servers describe themselves in OpenAPI. What stands there is not all for callers: a priority,
a template or a path of the server's own would let a tenant reach past its policy, so only names
that are known to be harmless are taken from it.
"""

from collections.abc import Mapping
from typing import Any

USUAL = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "response_format",
        "tool_choice",
        "tools",
        "top_logprobs",
        "user",
    }
)
"""What servers of this kind take beyond what all engines do."""

PASSED_ON = USUAL | {
    "bad_words",
    "chat_template_kwargs",
    "ignore_eos",
    "include_reasoning",
    "min_p",
    "min_tokens",
    "reasoning_effort",
    "repetition_penalty",
    "separate_reasoning",
    "skip_special_tokens",
    "stop_token_ids",
    "structured_outputs",
    "top_k",
}
"""What a caller may be given where the endpoint takes it."""

_PATHS = ("/v1/chat/completions", "/v1/completions")


def fields_in_openapi(document: object) -> frozenset[str]:
    """The fields of the bodies of completions and chats, in an OpenAPI document; empty where it
    describes none."""
    found: set[str] = set()
    for path in _PATHS:
        schema = _walk(document, "paths", path, "post", "requestBody", "content")
        body = _walk(schema, "application/json", "schema")
        name = _walk(body, "$ref")
        if isinstance(name, str):
            body = _walk(document, "components", "schemas", name.rpartition("/")[2])
        properties = _walk(body, "properties")
        found |= set(properties) if isinstance(properties, Mapping) else set()
    return frozenset(found)


def _walk(document: object, *keys: str) -> Any:
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document

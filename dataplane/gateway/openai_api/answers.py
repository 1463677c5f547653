"""Answers in OpenAI's shape: whole ones, and the chunks of a stream.

Both endpoints say the same things under different names; an `AnswerShape` holds the
difference, so that nobody else asks which endpoint a request came through.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from dataplane.gateway.openai_api.errors import ApiError
from dataplane.policy import Snapshot

CHAT_ENDPOINT = "/v1/chat/completions"
COMPLETION_ENDPOINT = "/v1/completions"

END_OF_STREAM = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one answer."""

    num_prompt_tokens: int
    num_output_tokens: int
    num_cached_tokens: int | None = None

    def body(self) -> dict[str, Any]:
        """OpenAI's document."""
        document: dict[str, Any] = {
            "prompt_tokens": self.num_prompt_tokens,
            "completion_tokens": self.num_output_tokens,
            "total_tokens": self.num_prompt_tokens + self.num_output_tokens,
        }
        if self.num_cached_tokens is not None:
            document["prompt_tokens_details"] = {"cached_tokens": self.num_cached_tokens}
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShape:
    """One answer's envelope."""

    endpoint: str
    request_id: str
    model: str
    created_at_unix: int
    fingerprint: str
    """What produced the answer: the model's revision."""
    includes_usage: bool = False
    """A stream ends with a usage chunk."""

    @property
    def _is_chat(self) -> bool:
        return self.endpoint == CHAT_ENDPOINT

    def whole(self, text: str, finish_reason: str, usage: Usage) -> bytes:
        """The answer of a request that does not stream."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
        if self._is_chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        document = self._envelope("chat.completion") | {"choices": [choice], "usage": usage.body()}
        return msgspec.json.encode(document)

    def first_chunk(self) -> bytes:
        """What a stream opens with, before any text: a chat says who speaks."""
        return self._chunk({"role": "assistant", "content": ""}) if self._is_chat else b""

    def text_chunk(self, text: str) -> bytes:
        """One fragment of the answer."""
        return self._chunk({"content": text} if self._is_chat else {"text": text})

    def last_chunk(self, finish_reason: str, usage: Usage) -> bytes:
        """All that follows the last fragment, the end-of-stream mark included."""
        end = self._chunk({} if self._is_chat else {"text": ""}, finish_reason)
        if self.includes_usage:
            document = self._envelope("chat.completion.chunk")
            end += _event(document | {"choices": [], "usage": usage.body()})
        return end + END_OF_STREAM

    def _chunk(self, says: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
        choice |= {"delta": says} if self._is_chat else says
        document = self._envelope("chat.completion.chunk") | {"choices": [choice]}
        if self.includes_usage:
            document["usage"] = None
        return _event(document)

    def _envelope(self, chat_object: str) -> dict[str, Any]:
        prefix = "chatcmpl" if self._is_chat else "cmpl"
        return {
            "id": f"{prefix}-{self.request_id}",
            "object": chat_object if self._is_chat else "text_completion",
            "created": self.created_at_unix,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def error_event(error: ApiError) -> bytes:
    """What a stream that cannot go on ends with; no end-of-stream mark follows it."""
    return _event(error.body())


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def list_models(snapshot: Snapshot) -> list[dict[str, Any]]:
    """One entry for each deployment, under a name that leads to it."""
    return list(_models(snapshot))


def _models(snapshot: Snapshot) -> Iterable[dict[str, Any]]:
    for deployment in snapshot.deployments:
        is_reached = snapshot.find_deployment(deployment.model_name) is deployment
        name = deployment.model_name if is_reached else deployment.name
        yield describe_model(name, deployment.created_at_unix)


def describe_model(name: str, created_at_unix: int) -> dict[str, Any]:
    """One entry of GET /v1/models."""
    return {
        "id": name,
        "object": "model",
        "created": created_at_unix,
        "owned_by": "pilothouse",
    }

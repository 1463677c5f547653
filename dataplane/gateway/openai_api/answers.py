"""Answers in OpenAI's shape: whole ones, and the chunks of a stream.

Both endpoints say the same things under different names; an `AnswerShape` holds the
difference, so that nobody else asks which endpoint a request came through.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dataplane.gateway.openai_api.deltas import merge_deltas
from dataplane.gateway.openai_api.errors import ApiError
from dataplane.gateway.openai_api.logprobs import chat_logprobs, completion_logprobs
from dataplane.gateway.output import Piece
from dataplane.policy import Snapshot

CHAT_ENDPOINT = "/v1/chat/completions"
COMPLETION_ENDPOINT = "/v1/completions"

END_OF_STREAM = b"data: [DONE]\n\n"
_PLACE = msgspec.Raw(b"<text>")
_ENCODER = msgspec.json.Encoder()


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
    tells_usage_along: bool = False
    """Each chunk of it tells the usage so far, too."""
    num_choices: int = 1
    """Sequences of the request (`n`)."""
    includes_logprobs: bool = False
    _text_frames: dict[int, "_TextFrame"] = field(default_factory=dict, init=False, compare=False)
    """What stands around the text of a chunk, by the choice's index."""

    @property
    def _is_chat(self) -> bool:
        return self.endpoint == CHAT_ENDPOINT

    def whole(self, pieces: Sequence[Piece], usage: Usage) -> bytes:
        """The answer of a request that does not stream: all pieces of all its sequences."""
        by_sequence: dict[int, list[Piece]] = {index: [] for index in range(self.num_choices)}
        for piece in pieces:
            by_sequence[piece.sequence].append(piece)
        choices = [self._choice(index, own) for index, own in by_sequence.items()]
        document = self._envelope("chat.completion") | {"choices": choices, "usage": usage.body()}
        return msgspec.json.encode(document)

    def first_chunks(self) -> bytes:
        """What a stream opens with, before any text: a chat says who speaks."""
        if not self._is_chat:
            return b""
        opening = {"role": "assistant", "content": ""}
        return b"".join(self._chunk(index, opening) for index in range(self.num_choices))

    def content_chunks(self, pieces: Iterable[Piece], so_far: Usage | None = None) -> bytes:
        """Fragments of the answer, one event for each part. `so_far` is what they tell along."""
        return b"".join([self._chunks_of(piece, so_far) for piece in pieces])

    def end_chunks(self, pieces: Iterable[Piece], so_far: Usage | None = None) -> bytes:
        """The ends of those sequences that ended with one of `pieces`."""
        return b"".join([self._end_chunk(p, so_far) for p in pieces if p.finish_reason is not None])

    def last_chunks(self, usage: Usage) -> bytes:
        """All that follows the last sequence's end, the end-of-stream mark included."""
        if not self.includes_usage:
            return END_OF_STREAM
        document = self._envelope("chat.completion.chunk")
        return _event(document | {"choices": [], "usage": usage.body()}) + END_OF_STREAM

    def _choice(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        parts = [part for piece in pieces for part in piece.parts]
        text = "".join(part for part in parts if isinstance(part, str))
        choice: dict[str, Any] = {
            "index": index,
            "logprobs": self._logprobs(pieces),
            "finish_reason": next(p.finish_reason for p in reversed(pieces) if p.finish_reason),
        }
        if not self._is_chat:
            return choice | {"text": text}
        merged = merge_deltas(part for part in parts if not isinstance(part, str))
        # A message of nothing but tool calls has no content.
        content = text if text or not merged else None
        return choice | {
            "message": {"role": "assistant", "content": content, "refusal": None} | merged
        }

    def _end_chunk(self, piece: Piece, so_far: Usage | None) -> bytes:
        # What was told of a token without text, such as the model's end, goes here.
        logprobs = None if piece.parts or not piece.logprobs else self._logprobs((piece,))
        says = {} if self._is_chat else {"text": ""}
        return self._chunk(piece.sequence, says, piece.finish_reason, logprobs, so_far)

    def _chunks_of(self, piece: Piece, so_far: Usage | None) -> bytes:
        logprobs = self._logprobs((piece,)) if self.includes_logprobs else None
        last = len(piece.parts) - 1
        chunks = [
            self._part_chunk(piece.sequence, part, logprobs if number == last else None, so_far)
            for number, part in enumerate(piece.parts)
        ]
        return chunks[0] if last == 0 else b"".join(chunks)

    def _part_chunk(
        self,
        index: int,
        part: str | Mapping[str, Any],
        logprobs: dict[str, Any] | None,
        so_far: Usage | None,
    ) -> bytes:
        if not isinstance(part, str):
            return self._chunk(index, part, logprobs=logprobs, so_far=so_far)
        if logprobs is not None or so_far is not None:
            return self._chunk(index, self._says(part), logprobs=logprobs, so_far=so_far)
        frame = self._text_frames.get(index)
        if frame is None:  # one encoding for a whole stream, all but the text
            frame = self._text_frames[index] = _TextFrame(self._chunk(index, self._says(_PLACE)))
        return frame.around(part)

    def _says(self, text: str | msgspec.Raw) -> Mapping[str, Any]:
        return {"content" if self._is_chat else "text": text}

    def _logprobs(self, pieces: Sequence[Piece]) -> dict[str, Any] | None:
        entries = [entry for piece in pieces for entry in piece.logprobs]
        if not self.includes_logprobs or not pieces:
            return None
        if self._is_chat:
            return chat_logprobs(entries)
        return completion_logprobs(entries, pieces[0].logprob_offset)

    def _chunk(
        self,
        index: int,
        says: Mapping[str, Any],
        finish_reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
        so_far: Usage | None = None,
    ) -> bytes:
        choice: dict[str, Any] = {
            "index": index,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        choice |= {"delta": says} if self._is_chat else says
        document = self._envelope("chat.completion.chunk") | {"choices": [choice]}
        if self.includes_usage:
            document["usage"] = None if so_far is None else so_far.body()
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


class _TextFrame:
    """A chunk that says a text and nothing else, cut where the text is."""

    __slots__ = ("_after", "_before")

    def __init__(self, chunk: bytes) -> None:
        # Behind the place stands nothing that a caller chose.
        self._before, _, self._after = chunk.rpartition(bytes(_PLACE))

    def around(self, text: str) -> bytes:
        return b"".join((self._before, _ENCODER.encode(text), self._after))


def error_event(error: ApiError) -> bytes:
    """What a stream that cannot go on ends with; no end-of-stream mark follows it."""
    return _event(error.body())


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def list_models(snapshot: Snapshot) -> list[dict[str, Any]]:
    """One entry for each deployment that is served here, under a name that leads to it."""
    return list(_models(snapshot))


def _models(snapshot: Snapshot) -> Iterable[dict[str, Any]]:
    for deployment in snapshot.deployments:
        if deployment.is_observed_only:
            continue
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

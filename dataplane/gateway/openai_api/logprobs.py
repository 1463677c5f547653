"""Logprobs as both endpoints write them. They are of the model's own distribution: neither
temperature nor any other parameter changes them."""

from collections.abc import Sequence
from typing import Any

from dataplane.engine import TokenLogprob

_LEAST = -9999.0
"""What OpenAI writes for a token that is next to impossible; JSON has no infinity."""


def chat_logprobs(entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    """`choice.logprobs` of a chat: one entry for each token, the model's end included."""
    return {"content": [_entry(e) | {"top_logprobs": list(map(_entry, e.top))} for e in entries]}


def completion_logprobs(entries: Sequence[TokenLogprob], offset: int) -> dict[str, Any]:
    """`choice.logprobs` of a completion. `offset`: characters of the answer before `entries`.

    The selected token stands among the likeliest even where it is none of them.
    """
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.token)
    return {
        "tokens": [entry.token for entry in entries],
        "token_logprobs": [_bounded(entry.logprob) for entry in entries],
        "top_logprobs": [
            {told.token: _bounded(told.logprob) for told in (entry, *entry.top)}
            for entry in entries
        ],
        "text_offset": offsets,
    }


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {
        "token": entry.token,
        "logprob": _bounded(entry.logprob),
        "bytes": None if entry.utf8 is None else list(entry.utf8),
    }


def _bounded(logprob: float) -> float:
    return max(logprob, _LEAST)

"""Logprobs as both endpoints write them. They are of the model's own distribution: neither
temperature nor any other parameter changes them.

Long lists are encoded a few entries at a time: twenty alternatives to each of thousands of
tokens would otherwise be millions of small objects at once.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dataplane.engine import TokenLogprob

_LEAST = -9999.0
"""What OpenAI writes for a token that is next to impossible; JSON has no infinity."""
_ENTRIES_AT_ONCE = 64


def chat_logprobs(entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    """`choice.logprobs` of a chat: one entry for each token, the model's end included."""
    return {
        "content": _encode(_entry(e) | {"top_logprobs": list(map(_entry, e.top))} for e in entries)
    }


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
        "top_logprobs": _encode(
            {told.token: _bounded(told.logprob) for told in (entry, *entry.top)}
            for entry in entries
        ),
        "text_offset": offsets,
    }


def _encode(values: Iterable[Any]) -> msgspec.Raw:
    """A list as JSON."""
    rest = iter(values)
    parts: list[bytes] = []
    while some := list(itertools.islice(rest, _ENTRIES_AT_ONCE)):
        parts.append(msgspec.json.encode(some)[1:-1])
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {
        "token": entry.token,
        "logprob": _bounded(entry.logprob),
        "bytes": None if entry.utf8 is None else list(entry.utf8),
    }


def _bounded(logprob: float) -> float:
    return max(logprob, _LEAST)

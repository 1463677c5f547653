"""Logprobs as OpenAI-compatible servers write them, in terms of the engine contract.

Chats tell entries, completions tell columns. What is neither, or holds a number that is none,
is left out: logprobs decorate an answer, and their absence is no reason to break it.
"""

import math
from collections.abc import Mapping
from typing import Any

from dataplane.engine import TokenLogprob


def read_logprobs(said: object) -> tuple[TokenLogprob, ...]:
    """One for each token of a chunk; () where the server tells none."""
    if not isinstance(said, Mapping):
        return ()
    content = said.get("content")
    if isinstance(content, list):
        return tuple(told for entry in content if (told := _read_entry(entry)) is not None)
    return _read_columns(said)


def _read_entry(entry: object, depth: int = 0) -> TokenLogprob | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("token"), str):
        return None
    logprob = _number(entry.get("logprob"))
    if logprob is None:
        return None
    top = entry.get("top_logprobs")
    return TokenLogprob(
        token=entry["token"],
        logprob=logprob,
        utf8=_bytes(entry.get("bytes")),
        top=tuple(
            told
            for item in (top if isinstance(top, list) and depth == 0 else ())
            if (told := _read_entry(item, depth + 1)) is not None
        ),
    )


def _read_columns(said: Mapping[str, Any]) -> tuple[TokenLogprob, ...]:
    tokens, logprobs = said.get("tokens"), said.get("token_logprobs")
    if not (isinstance(tokens, list) and isinstance(logprobs, list)):
        return ()
    tops = said.get("top_logprobs")
    tops = tops if isinstance(tops, list) else []
    told = []
    for index, (token, value) in enumerate(zip(tokens, logprobs, strict=False)):
        logprob = _number(value)
        if isinstance(token, str) and logprob is not None:
            top = _read_top(token, tops[index] if index < len(tops) else None)
            told.append(TokenLogprob(token=token, logprob=logprob, top=top))
    return tuple(told)


def _read_top(selected: str, top: object) -> tuple[TokenLogprob, ...]:
    """Without the selected token, which stands there anyway."""
    if not isinstance(top, Mapping):
        return ()
    return tuple(
        TokenLogprob(token=str(token), logprob=logprob)
        for token, value in top.items()
        if token != selected and (logprob := _number(value)) is not None
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def _bytes(value: object) -> bytes | None:
    is_bytes = isinstance(value, list) and all(
        isinstance(item, int) and 0 <= item < 256 for item in value
    )
    return bytes(value) if is_bytes and isinstance(value, list) else None

"""Readiness, proven by a generated token: an endpoint that only says that it is well may hang."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataplane.openai_endpoint.http import EndpointHttp

_PATH = "/v1/completions"
_ENDINGS = frozenset({"stop", "length"})


@dataclass(frozen=True, slots=True)
class Proof:
    """It generated a token."""

    shows_cached_tokens: bool
    """Its usage tells how much of the prompt was reused."""


async def prove(http: EndpointHttp, model: str, timeout_seconds: float) -> Proof:
    """Generate one token, of a prompt of one. Raises EngineUnavailableError."""
    body = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0, "stream": False}
    answer = await http.post_json(_PATH, body, timeout_seconds)
    choice = _first_choice(answer)
    if choice is None or choice.get("finish_reason") not in _ENDINGS:
        raise http.unavailable(f"POST {_PATH}: it generated no token: {str(answer)[:200]}")
    usage = answer.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, Mapping) else None
    timings = answer.get("timings")
    return Proof(
        shows_cached_tokens=(isinstance(details, Mapping) and "cached_tokens" in details)
        or (isinstance(timings, Mapping) and "cache_n" in timings)
    )


def _first_choice(answer: object) -> Mapping[str, Any] | None:
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else None

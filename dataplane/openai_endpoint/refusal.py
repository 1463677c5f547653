"""An answer that is no answer: what a caller is told of it. Pure.

The caller's own mistakes keep their status; everything else is the service's: 503 where it may be
tried again, 502 where the endpoint failed. Engines say the same in different words, and their
dialects know them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_CALLERS = frozenset({400, 404, 413, 422})
_BUSY = frozenset({429, 503})
_MAX_MESSAGE = 2000

CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
"""The code that OpenAI's clients know for a prompt that is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How a request ends that an endpoint refused, or gave up."""

    status_code: int
    """For the caller."""
    reason: str
    code: str | None = None
    """For the caller's program, where there is a name for it."""


def read_plain_refusal(status: int, body: object) -> Refusal:
    """What any such endpoint says; `body` is what it sent, parsed where it was JSON."""
    is_callers, is_busy = status in _CALLERS, status in _BUSY
    return Refusal(
        status_code=status if is_callers else 503 if is_busy else 502,
        reason=f"the endpoint answered {status}: {error_message(body)}",
        code=_code(body) if is_callers else None,
    )


def error_of(body: object) -> Mapping[str, object]:
    """The error object in a body, wherever servers put it; empty where there is none."""
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def error_message(body: object) -> str:
    """What it says, in its own words."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    said = error.get("message", error) if isinstance(error, Mapping) else error
    return str(said)[:_MAX_MESSAGE]


def status_of(body: object, default: int) -> int:
    """The status that an error in the middle of a stream names itself, where it does."""
    code = error_of(body).get("code", error_of(body).get("status_code"))
    is_status = isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599
    return code if is_status and isinstance(code, int) else default


def _code(body: object) -> str | None:
    code = error_of(body).get("code")
    return code if isinstance(code, str) and len(code) <= 64 and code.isprintable() else None

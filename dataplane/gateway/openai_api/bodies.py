"""From the bytes of a body to a plain object that is safe to look at.

The order is by cost. The number of values, counted before any is made; a strict decoder that
refuses what JSON has no place for (NaN, half a surrogate pair, bytes that are no UTF-8); then
the bounds on sizes; and only what keeps them is searched for keys that are given twice, of
which no two readers would take the same one.
"""

import asyncio
import gc
import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec

from dataplane.gateway.openai_api.errors import ApiRefusalError, refuse
from dataplane.gateway.openai_api.limits import check_size, check_structure

_SHOWN_CHARS = 64
_MAX_BYTES_ON_LOOP = 64 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBody:
    """A body as a plain object."""

    value: dict[str, Any]
    num_bytes: int
    """Memory that it takes."""


async def read_beside(body: bytes) -> ReadBody:
    """As `read_json`, beside the event loop where the body is large."""
    if len(body) <= _MAX_BYTES_ON_LOOP:
        return read_json(body)
    return await asyncio.to_thread(read_json, body)


def read_json(body: bytes) -> ReadBody:
    """The body as a JSON object. Raises ApiRefusalError."""
    if not body.strip():
        raise refuse("The body is empty; send a JSON object.", code="empty_body")
    check_structure(body)
    try:
        value = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _explain(body, error) from error
    if not isinstance(value, dict):
        raise refuse("The body must be a JSON object.", code="invalid_json")
    num_bytes = check_size(value)
    _check_keys(body)
    return ReadBody(value=value, num_bytes=num_bytes)


def _decode(body: bytes) -> Any:
    """No collection of garbage: it would look at all that is made, again and again, and find
    none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return msgspec.json.decode(body)
    finally:
        if was_enabled:
            gc.enable()


def _check_keys(body: bytes) -> None:
    """Refuse what the decoder lets pass: a key that is given twice, and numbers without end."""
    try:
        json.loads(body, object_pairs_hook=_unique, parse_float=_finite)
    except ApiRefusalError:
        raise
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise refuse(f"The body is not valid JSON: {error}", code="invalid_json") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) < len(pairs):
        twice = _first_repeated(pairs)
        raise refuse(
            f"The key '{_show(twice)}' is given twice in one object; give it once.",
            param=_show(twice),
            code="duplicate_key",
        )
    return known


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise ValueError("every key is unique")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {_show(text)} is too large")
    return number


def _explain(body: bytes, error: Exception) -> ApiRefusalError:
    """The decoder's own words, but for what has better ones."""
    said = str(error)
    if isinstance(error, RecursionError):
        said = "it is nested too deep"
    elif isinstance(error, msgspec.ValidationError):
        said = "it holds a number that is too large"
    elif _is_json_to_others(body):  # the decoder says of half a pair that the body was cut off
        said = (
            "half of a surrogate pair stands alone in it (an escape from \\ud800 to \\udfff), "
            "which is no character"
        )
    elif "truncated" in said:
        said = f"it ends in the middle, after {len(body)} bytes"
    return refuse(f"The body is not valid JSON: {said}", code="invalid_json")


def _is_json_to_others(body: bytes) -> bool:
    """A decoder that takes half a pair takes it."""
    try:
        json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _show(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."

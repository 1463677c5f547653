"""From the bytes of a body to a plain object that is safe to look at.

The order is by cost. A strict decoder that refuses what JSON has no place for (NaN, half a
surrogate pair, bytes that are no UTF-8); then the bounds on sizes; and only what keeps them is
searched for keys that are given twice, of which no two readers would take the same one.
"""

import json
import math
from typing import Any

import msgspec

from dataplane.gateway.openai_api.errors import ApiRefusalError, refuse
from dataplane.gateway.openai_api.limits import check_size

_SHOWN_CHARS = 64


def read_json(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises ApiRefusalError."""
    if not body.strip():
        raise refuse("The body is empty; send a JSON object.", code="empty_body")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _explain(body, error) from error
    if not isinstance(value, dict):
        raise refuse("The body must be a JSON object.", code="invalid_json")
    check_size(value)
    _check_keys(body)
    return value


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

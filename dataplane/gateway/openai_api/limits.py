"""How large the parts of a body may be: checked before anything heavy looks at them.

A body is bounded in bytes already, but bytes are not work: four megabytes can be a hundred
thousand messages, or brackets nested a million deep. Each bound is far above what clients
send, and what exceeds one is refused with the place and the bound.
"""

import sys
from collections.abc import Mapping
from typing import Any

from dataplane.gateway.openai_api.errors import refuse

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Of all lists and objects together, a prompt of token ids apart."""
_MAX_PROMPT_ITEMS = 2**18
_MAX_DECODED = MAX_VALUES + _MAX_PROMPT_ITEMS
_MAX_ITEMS: Mapping[str, int] = {
    "messages": 4096,
    "tools": 128,
    "functions": 128,
    "logit_bias": 1024,
    "metadata": 16,
    "prompt": _MAX_PROMPT_ITEMS,
}
MAX_PARTS = 256
"""Of one message's content."""
MAX_CHARS = 1024
"""Of names, labels and stop strings."""


def check_structure(raw: bytes) -> None:
    """Raises ApiRefusalError for a body of more values than any that could be taken, before they
    are made. What stands inside strings is told apart only where there is too much of all."""
    if _num_openings(raw) > _MAX_DECODED and (num_values := num_values_in(raw)) > _MAX_DECODED:
        raise refuse(
            f"The body holds {num_values} values or more; at most {_MAX_DECODED} are taken.",
            code="too_many_values",
        )


def num_values_in(raw: bytes) -> int:
    """How many values JSON holds at most; at least, where they are too many.

    Every value but the first follows a bracket, a brace or a comma that is in no string.
    """
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # the quotes left begin and end strings
    least = plain.count(b'"') // 4  # of two strings one may be a key
    if least > _MAX_DECODED:
        return least
    return 1 + _num_openings(b"".join(plain.split(b'"')[::2]))


def _num_openings(raw: bytes) -> int:
    return raw.count(b"[") + raw.count(b"{") + raw.count(b",")


def check_size(body: Mapping[str, Any]) -> int:
    """The bytes of memory that the body's values take. Raises ApiRefusalError naming what is
    too large."""
    for name, most in _MAX_ITEMS.items():
        value = body.get(name)
        if isinstance(value, list | dict) and len(value) > most:
            raise _too_many(name, len(value), most)
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        parts = message.get("content") if isinstance(message, dict) else None
        if isinstance(parts, list) and len(parts) > MAX_PARTS:
            raise _too_many(f"messages.{index}.content", len(parts), MAX_PARTS)
    return sys.getsizeof(body) + _check_values(body)


def _check_values(body: Mapping[str, Any]) -> int:
    """Depth, number and size of everything, without recursion."""
    num_values = num_bytes = 0
    for name, whole in body.items():
        level = [whole]
        if name == "prompt" and _is_flat(whole):
            num_bytes += sum(map(sys.getsizeof, (whole, *whole)))
            level = []
        depth = 1
        while level:
            num_values += len(level)
            num_bytes += sum(map(_num_bytes, level))
            if depth > MAX_DEPTH:
                raise refuse(
                    f"'{_short(name)}' is nested more than {MAX_DEPTH} levels deep.",
                    param=_short(name),
                    code="invalid_value",
                )
            if num_values > MAX_VALUES:
                raise _too_many(_short(name), num_values, MAX_VALUES)
            level = [inner for value in level for inner in _inside(value)]
            depth += 1
    return num_bytes


def _num_bytes(value: Any) -> int:
    keys = map(sys.getsizeof, value) if isinstance(value, dict) else ()
    return sys.getsizeof(value) + sum(keys)


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, list | dict) for item in value)


def _too_many(param: str, count: int, most: int) -> Exception:
    return refuse(
        f"'{param}' holds {count} values; at most {most} are taken.",
        param=param,
        code="too_many_values",
    )


def _short(name: str) -> str:
    return name if len(name) <= 64 else name[:64] + "..."

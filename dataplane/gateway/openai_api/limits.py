"""How large the parts of a body may be: checked before anything heavy looks at them.

A body is bounded in bytes already, but bytes are not work: four megabytes can be a hundred
thousand messages, or brackets nested a million deep. Each bound is far above what clients
send, and what exceeds one is refused with the place and the bound.
"""

from collections.abc import Mapping
from typing import Any

from dataplane.gateway.openai_api.errors import refuse

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Of all lists and objects together, a prompt of token ids apart."""
_MAX_ITEMS: Mapping[str, int] = {
    "messages": 4096,
    "tools": 128,
    "functions": 128,
    "logit_bias": 1024,
    "metadata": 16,
    "prompt": 2**18,
}
MAX_PARTS = 256
"""Of one message's content."""
MAX_CHARS = 1024
"""Of names, labels and stop strings."""


def check_size(body: Mapping[str, Any]) -> None:
    """Raises ApiRefusalError naming what is too large."""
    for name, most in _MAX_ITEMS.items():
        value = body.get(name)
        if isinstance(value, list | dict) and len(value) > most:
            raise _too_many(name, len(value), most)
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        parts = message.get("content") if isinstance(message, dict) else None
        if isinstance(parts, list) and len(parts) > MAX_PARTS:
            raise _too_many(f"messages.{index}.content", len(parts), MAX_PARTS)
    _check_values(body)


def _check_values(body: Mapping[str, Any]) -> None:
    """Depth and number of everything, without recursion."""
    num_values = 0
    for name, whole in body.items():
        level = [] if name == "prompt" and _is_flat(whole) else [whole]
        depth = 1
        while level:
            num_values += len(level)
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

"""The deltas of a streamed chat message, put together to the message of a whole answer."""

from collections.abc import Iterable, Mapping
from typing import Any


def merge_deltas(deltas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One message: strings are joined, lists are merged by their items' `index`, and of
    anything else the last one counts."""
    message: dict[str, Any] = {}
    for delta in deltas:
        _merge_into(message, delta)
    return {key: _without_index(value) for key, value in message.items()}


def _merge_into(merged: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key, value in delta.items():
        known = merged.get(key)
        if isinstance(value, list):
            merged[key] = _merge_list(known if isinstance(known, list) else [], value)
        elif isinstance(value, Mapping):
            merged[key] = dict(known) if isinstance(known, Mapping) else {}
            _merge_into(merged[key], value)
        elif isinstance(known, str) and isinstance(value, str) and key not in _WHOLE:
            merged[key] = known + value
        elif value is not None or key not in merged:
            merged[key] = value


# Told whole, and by some servers again with every fragment.
_WHOLE = frozenset({"id", "type", "role", "name"})


def _merge_list(merged: list[Any], items: list[Any]) -> list[Any]:
    by_index = {item["index"]: item for item in merged if _index_of(item) is not None}
    for item in items:
        index = _index_of(item)
        if index is None:
            merged.append(item)
        elif index in by_index:
            _merge_into(by_index[index], item)
        else:
            by_index[index] = {}
            merged.append(by_index[index])
            _merge_into(by_index[index], item)
    return merged


def _index_of(item: Any) -> Any:
    """What an item of a streamed list is known by; None where it carries nothing of the kind."""
    index = item.get("index") if isinstance(item, Mapping) else None
    return index if isinstance(index, int) else None


def _without_index(value: Any) -> Any:
    """Only streams number their tool calls."""
    if not isinstance(value, list):
        return value
    return [
        {k: v for k, v in item.items() if k != "index"} if isinstance(item, Mapping) else item
        for item in value
    ]

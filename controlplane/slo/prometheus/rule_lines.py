"""Rules of Prometheus as lines of YAML.

They have but one shape: maps and lists to a known depth, and text. A writer of any YAML takes a
minute of a core for what 50 deployments of eight classes make, and this a second.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z(][^\n]*|\d+[smhd]|\d[^\n(]*\([^\n]*")
"""Where nothing but text begins so: names, durations, expressions that begin with a number."""
_ANOTHER_MEANING = re.compile(
    r": |:$| #|\s$|^(?:true|false|null|yes|no|on|off|y|n)$", re.IGNORECASE
)


def lines_of(value: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """Of a map whose values are text, maps of text, or lists of maps. Each ends its line."""
    for key, each in value.items():
        if isinstance(each, str):
            yield f"{' ' * indent}{key}: {_scalar(each, indent)}\n"
        elif isinstance(each, Mapping):
            yield f"{' ' * indent}{key}:\n"
            yield from lines_of(each, indent + 2)
        elif not each:
            yield f"{' ' * indent}{key}: []\n"
        else:
            yield f"{' ' * indent}{key}:\n"
            for item in each:
                yield from _item(item, indent + 2)


def _item(item: Mapping[str, Any], indent: int) -> Iterator[str]:
    first, *others = lines_of(item, indent + 2)
    yield f"{' ' * indent}- {first[indent + 2 :]}"
    yield from others


def _scalar(text: str, indent: int) -> str:
    """Several lines stand as they are where they end as lines do."""
    if not text.isprintable():
        begins_with_a_word = text[:1].strip() and text.replace("\n", "").isprintable()
        if not begins_with_a_word or not text.endswith("\n") or text.endswith("\n\n"):
            return json.dumps(text)
        return "|" + "".join(f"\n{' ' * (indent + 2)}{line}" for line in text[:-1].split("\n"))
    if _PLAIN.fullmatch(text) and not _ANOTHER_MEANING.search(text):
        return text
    if "'" in text and not {'"', "\\"} & set(text):
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"

"""What is seen from outside, dated: scrapes and log lines, and who takes them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """One answer to one scrape; without an answer the text is empty, and `error` says why."""

    at: float
    target: str
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A line that a process, or who started it, wrote."""

    at: float
    target: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a gateway counts."""

    at: float
    target: str
    values: Mapping[str, int]


Seen = Scraped | Logged | Counted
Sink = Callable[[Seen], None]
"""Who takes what is seen, in the order of virtual time."""


def to_json(seen: Seen) -> str:
    """One line: a part of the input that a diagnosis takes."""
    part: dict[str, Any] = {"at_s": round(seen.at, 9), "target": seen.target}
    match seen:
        case Scraped(text=text, error=error):
            part = {"kind": "metrics", **part, "text": text}
            if error is not None:
                part["error"] = error
        case Logged(text=text):
            part = {"kind": "log", **part, "text": text}
        case Counted(values=values):
            part = {"kind": "gateway", **part, "values": dict(values)}
    return json.dumps(part, ensure_ascii=False)


class LineFile:
    """A Sink that writes one JSON object a line, and keeps nothing."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __call__(self, seen: Seen) -> None:
        """Write it."""
        self._file.write(to_json(seen) + "\n")

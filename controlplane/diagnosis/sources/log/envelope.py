"""A log line out of its wrappers: JSON, colours, container and process prefixes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.diagnosis.sources.log.stamp import Stamp, epoch_stamp, find_stamp

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_REPLICA = re.compile(
    r"^(?:\[pod/(?P<pod>[\w.-]+)/[\w.-]+\]|(?P<service>[\w.-]+) +\|"
    r"|pod/(?P<bare>[\w.-]+)(?:/[\w.-]+)?:?) "
)
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|Error|error)\b")
_RANK = re.compile(r"(?<![A-Za-z])(DP|TP|PP|EP|[Rr]ank[ =]?)_?(\d{1,4})(?!\d)")
_SLOT = re.compile(r"\bid +(\d+) \| task (-?\d+) \||\bid_slot=(\d+) id_task=(-?\d+)")
_HEAD = 160
_MESSAGE_KEYS = ("log", "message", "msg", "event", "MESSAGE", "text", "textPayload", "line", "body")
_NESTED = ("fields", "jsonPayload", "_source", "attributes", "record")
_TIME_KEYS = (
    "at",
    "time",
    "timestamp",
    "ts",
    "@timestamp",
    "asctime",
    "__REALTIME_TIMESTAMP",
    "at",
)
_LEVEL_KEYS = ("level", "levelname", "severity", "lvl", "loglevel")
_LONGEST_NAME = 80
NO_RECORD: Mapping[str, object] = {}
_DEEPEST = 3
"""A JSON line of a program inside that of Docker inside that of a collector."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One line without its wrappers."""

    text: str
    """The message, with whatever prefix its writer gave it."""
    stamp: Stamp | None
    told_level: str
    """As a JSON record has it; empty where there is none."""
    replica: str
    """Pod or service that a container tool put before the line; empty where there is none."""
    record: Mapping[str, object]
    """All that a JSON record says; empty for plain text."""

    @property
    def level(self) -> str:
        """In capitals; empty where the line does not say."""
        return self.told_level or _level(self.text)

    @property
    def ranks(self) -> dict[str, int]:
        """`{"dp": 0, "tp": 3}` of a prefix such as `DP0 TP3`."""
        head = self.text[:_HEAD]
        if not ("DP" in head or "TP" in head or "PP" in head or "ank" in head or "EP" in head):
            return {}
        found = _RANK.findall(head)
        return {kind.rstrip(" =").lower(): int(number) for kind, number in found}

    @property
    def slot(self) -> dict[str, str]:
        """`{"slot": "0", "task": "311"}` of llama.cpp's server; empty for any other."""
        found = _SLOT.search(self.text) if "task" in self.text else None
        if found is None:
            return {}
        return {"slot": found[1] or found[3], "task": found[2] or found[4]}


def uncoloured(line: str) -> str:
    """Without what tells a terminal to change colour."""
    return _COLOUR.sub("", line) if "\x1b" in line else line


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a container tool put before a message: where its name stands, and where it ends."""

    start: int
    stop: int
    end: int


NO_PREFIX = Prefix(0, 0, 0)


def find_prefix(line: str) -> Prefix:
    """Of `line`; the same in every line that differs from it in digits alone."""
    is_named = "|" in line[:_LONGEST_NAME] or line.startswith(("[pod/", "pod/"))
    found = _REPLICA.match(line) if is_named else None
    if found is None:
        return NO_PREFIX
    return Prefix(*found.span(found.lastgroup or 0), found.end())


def may_be_record(line: str) -> bool:
    """Whether it may hold JSON; the same in every line that differs from it in digits alone."""
    return line.rstrip().endswith("}")


def open_line(line: str) -> list[Envelope]:
    """What `line` holds: one message, or several where JSON holds one with line breaks."""
    prefix = find_prefix(line)
    name = line[prefix.start : prefix.stop]
    body = line[prefix.end :]
    stamp, level = None, ""
    record: Mapping[str, object] = NO_RECORD
    for _ in range(_DEEPEST):
        opened = _from_json(body)
        if opened is None:
            break
        body, own_stamp, own_level, record = opened
        stamp, level = stamp or own_stamp, own_level or level
    parts = body.rstrip("\n").split("\n") if "\n" in body else [body]
    outer = stamp or find_stamp(body)
    return [
        Envelope(part, outer if index == 0 or stamp else None, level, name, record)
        for index, part in enumerate(parts)
    ]


def _level(text: str) -> str:
    found = _LEVEL.search(text, 0, _HEAD)
    if found is None:
        return ""
    return {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(found[1].upper(), found[1].upper())


def _from_json(text: str) -> tuple[str, Stamp | None, str, dict[str, object]] | None:
    """Message, time, level and all of a JSON object that is a log record; None for anything
    else."""
    if not may_be_record(text):
        return None
    start = text.find("{", 0, 80)
    if start < 0 or text[:start].strip():
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    merged = dict(record)
    for name in _NESTED:
        if isinstance(record.get(name), dict):
            merged.update(record[name])
    message = next((merged[key] for key in _MESSAGE_KEYS if isinstance(merged.get(key), str)), None)
    if message is None:
        return None
    for extra in ("exc_info", "exception", "stack_trace", "error", "err"):
        if isinstance(merged.get(extra), str):
            message = f"{message.rstrip()}\n{merged[extra]}"
    target = merged.get("target")
    if isinstance(target, str):
        message = f"{target}: {message}"
    level = next((merged[key] for key in _LEVEL_KEYS if isinstance(merged.get(key), str)), "")
    return message, _json_stamp(merged), level.upper(), merged


def _json_stamp(record: dict[str, object]) -> Stamp | None:
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            found = find_stamp(value)
            if found is not None:
                return found
            if value.isascii() and value.replace(".", "", 1).isdigit():
                value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return epoch_stamp(float(value))
    return None

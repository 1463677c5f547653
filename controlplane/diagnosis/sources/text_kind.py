"""What a text is, by its first lines."""

import re
from collections.abc import Iterable
from enum import StrEnum

from controlplane.diagnosis.sources.case import is_case
from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.sources.log.stamp import find_stamp

_SAMPLE = re.compile(
    r"^[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})? +"
    r"[+-]?(?:\d[\d.]*(?:[eE][+-]?\d+)?|NaN|Inf)(?: +[\d.]+)?\s*$"
)
_COMMENT = re.compile(r"^# (?:TYPE|HELP|UNIT|EOF)\b")
_OWN_LINE = re.compile(r"^\s*\{.*\"at_s\":.*\"kind\":|^\s*\{.*\"kind\":.*\"at_s\":")
_RECORD = re.compile(r'^\s*\{(?=.*"request_id" *:)(?=.*"arrived_at_unix_ns" *:)')
_PAGE = re.compile(r'\{\s*"requests": *\[\s*\{\s*"request_id"')
_FIRST_LINES = 5
"""Of which one at least is whole, where the beginning of a file was cut off."""
_FEW = 0.4
"""A page of which so many lines are broken is one still; of a log, nearly all are none."""


class TextKind(StrEnum):
    """Each is read in its own way."""

    METRICS = "metrics"
    LOG = "log"
    MIXED = "mixed"
    """A log in which metrics pages stand, as people paste them together."""
    CASE = "case"
    RECORDS = "records"
    """Our records of requests, one a line."""
    OWN_LINES = "own lines"
    """What `pilothouse simulate --metrics` writes."""


def kind_of(head: str, place: str) -> TextKind:
    """Of a text that begins with `head`. Raises InputError for what is none of them."""
    lines = [line for line in head.splitlines() if line.strip()]
    _refuse(head.lstrip("\ufeff \t\r\n"), place)
    if is_case(head):
        return TextKind.CASE
    if lines and _OWN_LINE.match(lines[0]):
        return TextKind.OWN_LINES
    if any(map(_RECORD.match, lines[:_FIRST_LINES])):
        return TextKind.RECORDS
    others = [line for line in lines if not is_exposition(line)]
    if len(others) <= _FEW * len(lines) and not any(map(find_stamp, _without_comments(others))):
        return TextKind.METRICS
    return TextKind.MIXED if any(_COMMENT.match(line) for line in lines) else TextKind.LOG


def _without_comments(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if not line.startswith("#"))


def is_exposition(line: str) -> bool:
    """Whether it stands in metrics pages."""
    return _SAMPLE.match(line) is not None or _COMMENT.match(line) is not None


def _refuse(start: str, place: str) -> None:
    if start[:1] == "<" and re.match(r"<(?:!doctype html|html|\?xml)", start, re.IGNORECASE):
        raise InputError(
            place,
            "is an HTML page",
            "a proxy or another server may have answered; save what the engine's own /metrics says",
        )
    if start.startswith('{"status":') and '"resultType"' in start[:2000]:
        raise InputError(
            place,
            "is a Prometheus server's answer",
            "name the server itself with --prometheus",
        )
    if _PAGE.match(start):
        raise InputError(
            place,
            "is one page of `pilothouse requests`",
            "write all that match, one a line: `pilothouse requests --all -o json`",
        )

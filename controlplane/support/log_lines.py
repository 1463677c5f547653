"""Log lines without what callers sent or got. Pure.

Lines are JSON objects of our own making (dataplane.logs). A field is kept for what it is, not for
how harmless its value looks: numbers, the fixed words of an event, and the names in `_NAMES` stay.
Free text (an error, a reason) could quote a prompt. It stays where no prompt comes by: in lines of
the control plane that are about no request, without what they quote. Elsewhere only what the
operating system says of it stays. Tracebacks keep their frames and the type of the error.
"""

import json
import re
from typing import Any

from controlplane.support.scrub import Scrubber
from dataplane.logs import REQUEST_ID_KEY, TRACE_ID_KEY

_MAX_LINE = 8000
_WORD = re.compile(r"[\w.:@/+=%,-]{1,200}")
_NAMES = frozenset(
    {
        "gateway_id", "request_id", "trace_id", "replica_id", "deployment", "request_class",
        "engine", "state", "stage", "address", "path", "name", "role", "revision", "digest",
        "disposition", "delivery", "endpoint", "predecessor", "successor", "replica", "bound",
        "method", "word", "kind",
    }
)  # fmt: skip
"""Fields that hold one word: who or what a line is about."""
_SYSTEM_SAID = re.compile(
    r"\[Errno -?\d+\] [A-Z][a-z ]+[a-z]|All connection attempts failed|timed out"
)
_SAFE_PROCESSES = frozenset({"controlplane", "supervisor"})
_FIXED = frozenset({"event", "level", "logger", "at", "process"})
_OWN_LOGGERS = ("dataplane", "controlplane", "pilothouse_")
_SQL = re.compile(r"\[(?:SQL|parameters):.*", re.S)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_FRAME = re.compile(r'\s*File "[^"]+", line \d+(, in \S+)?')
_RAISED = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Timeout))\b")
_CONTENT_NAMES = frozenset(
    {"prompt", "prompts", "messages", "message", "content", "text", "output", "outputs", "body"}
)


def clean_log_line(line: str, scrubber: Scrubber) -> str:
    """One line of a log as a bundle may hold it."""
    try:
        fields = json.loads(line[:_MAX_LINE])
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        return json.dumps(scrubber.data(_clean_fields(fields)))
    return scrubber.text(_clean_plain(line))


def _clean_fields(fields: dict[str, Any]) -> dict[str, Any]:
    is_about_request = REQUEST_ID_KEY in fields or TRACE_ID_KEY in fields
    return {
        name: _clean_field(name, value, fields, is_about_request) for name, value in fields.items()
    }


def _clean_field(name: str, value: Any, fields: dict[str, Any], is_about_request: bool) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if name.casefold() in _CONTENT_NAMES or not isinstance(value, str):
        return _left_out(value)
    if name == "exception":
        return _clean_traceback(value)
    is_ours = str(fields.get("logger", "")).startswith(_OWN_LOGGERS)
    if name in _FIXED and (name != "event" or is_ours):
        return value
    if name in _NAMES and _WORD.fullmatch(value):
        return value
    if is_about_request or fields.get("process") not in _SAFE_PROCESSES:
        said = _SYSTEM_SAID.search(value)
        return said[0] if said else _left_out(value)
    return _unquoted(value)


def _clean_plain(line: str) -> str:
    """A line that is no JSON: of a traceback, of a crash, of somebody else's library."""
    if not line.strip() or line.startswith("Traceback (most recent call last)"):
        return line
    if _FRAME.match(line):
        return line
    if line.startswith("Error: "):
        return _unquoted(line)
    raised = _RAISED.match(line)
    return f"{raised[1]}: ..." if raised else _left_out(line)


def _clean_traceback(text: str) -> str:
    """Frames and types; not the source lines, which may hold literals, nor the messages."""
    kept = []
    for line in text.split("\n"):  # not splitlines: U+2028 and its like are part of a message
        raised = _RAISED.match(line)
        if _FRAME.match(line) or line.startswith("Traceback"):
            kept.append(line)
        elif raised:
            kept.append(f"{raised[1]}: ...")
    return "\n".join(kept)


def _unquoted(text: str) -> str:
    return _QUOTED.sub("'...'", _SQL.sub("...", text))


def _left_out(value: Any) -> str:
    return f"[{len(str(value))} characters left out]"

"""Lines of no known shape, by their level or as the last line of an exception."""

import re

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.envelope import Envelope
from controlplane.diagnosis.sources.log.shape import Match

LEVEL_WORDS = frozenset({"ERROR", "CRITICAL", "FATAL", "WARNING", "WARN"})
_EXCEPTION = re.compile(r"(?:^|[\] :])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b(?::|$)")
_INSIDE_TRACEBACK = re.compile(
    r"(?:\] |^)\s*(?:Traceback \(most|File \"|\^+|~+\^|\.\.\.)|\]\s{4,}|^\s{4,}"
)


def may_matter(line: str) -> bool:
    """Whether it may be the last line of an exception, or a record in JSON."""
    return "Error" in line or "Exception" in line or line.endswith("}")


def by_level(envelope: Envelope) -> Match | None:
    """An error or a warning; None for a line of a traceback but the last, and for any other."""
    level, text = envelope.level, envelope.text
    is_exception = "Error" in text or "Exception" in text
    if level not in ("ERROR", "CRITICAL", "WARNING") and not is_exception:
        return None
    if _INSIDE_TRACEBACK.search(text):
        return None
    if level in ("ERROR", "CRITICAL") or (is_exception and _EXCEPTION.search(text)):
        return Match(LogKind.ERROR, {}, {})
    return Match(LogKind.WARNING, {}, {}) if level == "WARNING" else None

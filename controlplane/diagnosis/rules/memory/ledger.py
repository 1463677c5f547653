"""What of a device's memory had gone to what, in sentences that findings cite."""

import re

from controlplane.diagnosis.citing import course, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.rules.memory.amount import as_written
from controlplane.diagnosis.rules.memory.failure import Failure
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_MOST_FACTS = 8
_MOST_LINE = 240
"""Characters of a log line that a finding repeats."""


def asked_for(failure: Failure) -> tuple[str, ...]:
    """`136.00 MiB wanted, 120.88 MiB free of 22.36 GiB`; the line where it has no figures."""
    if failure.wanted is None and failure.free is None:
        return (f"the failure: {shortened(failure.line)}",)
    parts = []
    if failure.wanted is not None:
        parts.append(f"{failure.wanted.raw} wanted")
    if failure.free is not None:
        of_total = "" if failure.total is None else f" of {failure.total.raw}"
        parts.append(f"{failure.free.raw} free{of_total}")
    if failure.reserved is not None:
        parts.append(f"{failure.reserved.raw} reserved and unallocated")
    return (", ".join(parts), *_held_by_itself(failure))


def _held_by_itself(failure: Failure) -> tuple[str, ...]:
    """`this process holds 23.46 GiB: 22.88 GiB allocated`, of what it says so."""
    parts = []
    if failure.process is not None:
        parts.append(f"this process holds {failure.process.raw}")
    if failure.allocated is not None:
        of_pool = "" if failure.pool is None else f" of {failure.pool.raw} reserved in all"
        parts.append(f"{failure.allocated.raw} allocated{of_pool}")
    return (", of it ".join(parts),) if parts else ()


def placed(window: Window, failure: Failure) -> tuple[str, ...]:
    """What stood before the failure: weights, KV cache, graphs."""
    sentences = []
    for kind, what in (
        (LogKind.WEIGHTS_LOADED, "weights are in"),
        (LogKind.KV_CACHE_SIZED, "KV cache sized"),
        (LogKind.GRAPH_CAPTURE_FINISHED, "graph capture finished"),
    ):
        found = before(window, failure, kind)
        if found:
            sentences.append(f"{what}: {_figures(found)}")
    return tuple(sentences)


def before(window: Window, failure: Failure, kind: LogKind) -> tuple[LogEvent, ...]:
    """Events of that kind above the failure."""
    return tuple(event for event in window.events_of(kind) if event.index < failure.index)


def _figures(events: tuple[LogEvent, ...]) -> str:
    parts: dict[str, None] = {}
    for event in events:
        message = _message(event.line)
        for name, value in event.fields.items():
            if name.endswith("bytes"):
                parts[as_written(value, (message,)).raw] = None
        for figure in re.findall(r"[\d,]+ tokens|#tokens: \d+|[\d.]+ ?sec(?:ond)?s?\b", message):
            parts[figure] = None
    return ", ".join(parts) if parts else shortened(_message(events[-1].line))


def _message(line: str) -> str:
    """Without the head that a logger puts before it."""
    return re.sub(r"^.*?\[?[\w./]+\.(?:py|rs|cpp|cc):\d+\]?:? ", "", line, count=1)


def shortened(line: str) -> str:
    """A log line as a finding repeats it."""
    line = " ".join(line.split())
    return line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}..."


def known(window: Window, pattern: str) -> tuple[str, ...]:
    """What was told beside the log about these things, as one sentence; nothing where it was not.

    `pattern` is a regular expression over the keys as they were written.
    """
    found = facts_named(window, pattern)[:_MOST_FACTS]
    return (f"known besides: {', '.join(says(fact) for fact in found)}",) if found else ()


def facts_named(window: Window, pattern: str) -> tuple[Fact, ...]:
    """Facts whose key, as it was written, holds the pattern; the newest of each key."""
    newest = {
        fact.key: fact for fact in window.facts if re.search(pattern, fact.key, re.IGNORECASE)
    }
    return tuple(newest.values())


def grown_with_contexts(window: Window) -> tuple[str, ...]:
    """Device memory that rose from reading to reading, and the contexts with it; nothing where it
    did not."""
    used = course_of(
        window,
        Signal.DEVICE_MEMORY_USED,
        r"(gpu|vram|device|smi).*(used|in use)|(used|in use).*(gpu|vram|device)",
        without=r"before|other|total|limit",
    )
    contexts = course_of(
        window,
        Signal.CONTEXT_TOKENS,
        r"contexts?( \w+)* tokens|tokens in contexts?|n past|context length|kv tokens",
        without=r"limit|max|death|window",
    )
    if used is None or len(used.readings) < _LEAST_READINGS or used.values[-1] <= used.values[0]:
        return ()
    if sorted(used.values) != list(used.values):
        return ()
    if contexts is None or contexts.last.value <= contexts.first.value:
        return ()
    return (
        f"{course(used)}: more with each reading",
        f"{course(contexts)}: as the contexts grow",
    )


_LEAST_READINGS = 3

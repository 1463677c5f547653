"""That a process ended, and nobody says why: its port refuses, or its log breaks off.

What it did before is no answer to that, however well it can be seen.
"""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.views.gone_replicas import all_gone
from controlplane.diagnosis.views.page_end import last_page_at, refusal
from controlplane.diagnosis.window import Window

_LEFT_BEHIND = r"Parent process exited|resource_tracker: process died unexpectedly"
"""What children write whose parent is suddenly no more."""
_WAS_ASKED = re.compile(
    r"shutting down|shutdown|sigterm|sigint|signal (2|15)\b|keyboardinterrupt|received signal"
    r"|graceful",
    re.IGNORECASE,
)
_LAST_LINES = 60
_CALM = frozenset({Mechanism.HEALTHY, Mechanism.QUEUE_BURST_DRAINING})
_ENDS_PROCESSES = frozenset(
    {
        *(each for each in Mechanism if each.value.startswith("oom.")),
        # Whoever watches over it may have ended it.
        Mechanism.ENGINE_HUNG,
        Mechanism.ENGINE_GONE,
        # Each of them is of pages that are not there, or of a process that has yet to begin.
        Mechanism.TELEMETRY_MISSING,
        Mechanism.STARTUP_SLOW,
    }
)
_HOW_IT_ENDED = "how its process ended: its exit code, the kernel's log, and who stopped it ({})"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Of the process of an engine."""

    says: str
    """How it is known."""
    needs: tuple[str, ...]
    """What would tell why."""
    is_refused: bool
    """Its port says so, of the present; otherwise its log, of its last line."""

    def leaves(self, mechanism: Mechanism) -> bool:
        """Whether `mechanism` may be the answer for a process that is gone."""
        if self.is_refused:
            return mechanism in _ENDS_PROCESSES
        return mechanism not in _CALM


def end_of(window: Window) -> End | None:
    """None where it goes on, was asked to end, or says itself why it ended."""
    return window.once(end_of, lambda: _by_port(window) or _by_log(window))


def _by_port(window: Window) -> End | None:
    why = refusal(window) or all_gone(window)
    if why is None:
        return None
    last = last_page_at(window)
    since = "" if last is None else f", and pages came until {number(window.end - last)} s ago"
    says = f"{why.key} {why.raw}{since}"
    needs = (
        f"whether its process still runs ({says})",
        "otherwise how it ended: its exit code, the kernel's log, and who stopped it",
        "the end of its log (`pilothouse diagnose engine.log`)",
    )
    return End(says=f"{says}: it is gone", needs=needs, is_refused=True)


def _by_log(window: Window) -> End | None:
    first = max(0, len(window.lines) - _LAST_LINES)
    found = [place for place in window.places_with(_LEFT_BEHIND) if place >= first]
    if not found or any(_WAS_ASKED.search(line) for line in window.lines[first:]):
        return None
    told = window.last_event(LogKind.STARTING, LogKind.READY, LogKind.OUT_OF_MEMORY)
    if told is not None and told.index >= found[0]:
        return None
    line = " ".join(window.lines[found[0]].split())[:160]
    says = f"the log breaks off: {line}"
    records = "which requests it had then: the gateway's records of that minute"
    return End(says=says, needs=(_HOW_IT_ENDED.format(says), records), is_refused=False)

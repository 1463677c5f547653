"""What is kept of a log of any length: its first and last lines, and the events of each kind."""

from collections import Counter, deque
from dataclasses import dataclass, field, replace

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import Match
from controlplane.diagnosis.sources.log.stamp import Clock

MOST_EDGE_LINES = 2000
"""So many lines of the beginning and as many of the end are kept as they are."""
MOST_FIRST_EVENTS = 500
MOST_LAST_EVENTS = 1500
"""Of each kind: how it began, and how it stands."""

_MOST_OF_EDGE = 2000
"""Characters: of a longer line than two of these the middle is not kept. Rules search lines with
regular expressions, and somebody's prompt in a log is no reason to do so for seconds."""


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event before the log's clock is settled."""

    match: Match
    index: int
    line: str
    axis: Clock | None
    seconds: float | None


@dataclass(slots=True)
class _OfKind:
    first: list[SeenEvent] = field(default_factory=list)
    last: deque[SeenEvent] = field(default_factory=lambda: deque(maxlen=MOST_LAST_EVENTS))


class Keeping:
    """The lines and events that are kept."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=MOST_EDGE_LINES)
        self._events: dict[LogKind, _OfKind] = {}
        self._counts: Counter[LogKind] = Counter()
        self.num_lines = 0

    def line(self, line: str) -> int:
        """Keeps it for as long as it is one of the first or last. Returns its index."""
        line = shortened(line)
        if len(self._first) < MOST_EDGE_LINES:
            self._first.append(line)
        else:
            self._last.append(line)
        self.num_lines += 1
        return self.num_lines - 1

    def event(self, event: SeenEvent) -> None:
        """Keeps it for as long as it is one of the first or last of its kind."""
        if len(event.line) > 2 * _MOST_OF_EDGE:
            event = replace(event, line=shortened(event.line))
        kept = self._events.setdefault(event.match.kind, _OfKind())
        self._counts[event.match.kind] += 1
        if len(kept.first) < MOST_FIRST_EVENTS:
            kept.first.append(event)
        else:
            kept.last.append(event)

    def events(self) -> list[SeenEvent]:
        """Those that are kept, in the order of their lines."""
        found = [each for kept in self._events.values() for each in (*kept.first, *kept.last)]
        return sorted(found, key=lambda event: event.index)

    def lines(self) -> tuple[str, ...]:
        """The first and the last, and between them those of events."""
        end_of_first = len(self._first)
        start_of_last = self.num_lines - len(self._last)
        between = {
            event.index: event.line
            for event in self.events()
            if end_of_first <= event.index < start_of_last
        }
        return (*self._first, *between.values(), *self._last)

    def thinned(self) -> dict[LogKind, int]:
        """How many there were of each kind of which not all are kept."""
        most = MOST_FIRST_EVENTS + MOST_LAST_EVENTS
        return {kind: count for kind, count in self._counts.items() if count > most}


def shortened(line: str) -> str:
    """Its beginning and its end, which says what a traceback in one line is of."""
    if len(line) <= 2 * _MOST_OF_EDGE:
        return line
    return f"{line[:_MOST_OF_EDGE]} ... {line[-_MOST_OF_EDGE:]}"

"""Where among the lines that were kept an event stands: of a long log the middle is gone."""

from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.window import Window


def place_of(window: Window, event: LogEvent) -> int:
    """Its place in `window.lines`; the last line that reads the same where lines are missing, and
    their number where it is not among them."""
    lines = window.lines
    if 0 <= event.index < len(lines) and lines[event.index] == event.line:
        return event.index
    last = window.once("last places of lines", lambda: {line: n for n, line in enumerate(lines)})
    return last.get(event.line, len(lines))

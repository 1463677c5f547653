"""Times that somebody wrote into a sentence: `22 min ago`, `image 30 s, compile 700 s`."""

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(
    r"(?<![\w.])(?P<number>\d+(?:\.\d+)?) ?"
    r"(?P<unit>ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b",
    re.IGNORECASE,
)


def durations_in(text: str) -> tuple[tuple[str, float], ...]:
    """Each time in a text, in seconds, after the words that stand between the one before and it."""
    found = []
    end = 0
    for match in _DURATION.finditer(text):
        unit = match["unit"].lower()
        seconds = _SECONDS.get(unit) or _SECONDS[unit[0]]
        words = " ".join(re.findall(r"[A-Za-z][\w.-]*", text[end : match.start()]))
        found.append((words, float(match["number"]) * seconds))
        end = match.end()
    return tuple(found)

"""Lines that look known and cannot be read: counted by what they are, the first of each kept."""

from collections import Counter
from collections.abc import Iterator

_SHOWN = 120


class Unread:
    """Of one log."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def count(self, what: str, line: str) -> None:
        """One more of `what`."""
        self._counts[what] += 1
        self._first.setdefault(what, line)

    def told(self) -> Iterator[str]:
        """A sentence for each."""
        for what, count in self._counts.items():
            yield f"{what}: {count} lines, the first: {self._first[what][:_SHOWN]}"

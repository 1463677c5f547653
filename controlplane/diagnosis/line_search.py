"""Log lines that match an expression, found in a time that is bounded whatever was logged."""

import re
from collections.abc import Sequence

from controlplane.diagnosis.needed_words import needed_words
from controlplane.diagnosis.patterns import compiled

MOST_SEARCHED = 1_000_000
"""Characters of all lines together. Where there are more, of the longest lines so much is left out,
in their middle, that the others are searched whole: they are somebody's data or a traceback, and
say at their ends what they are about."""
_LEAST_OF_LINE = 200


class LineSearch:
    """Over lines that never change."""

    def __init__(self, lines: Sequence[str]) -> None:
        most = _most_of_line(lines)
        self._searched = [_ends(line, most) for line in lines]
        self._lowered = [line.lower() for line in self._searched]
        self._all = "\n".join(self._lowered)

    def places(self, pattern: str) -> tuple[int, ...]:
        """Indexes of those that match whatever their case, in order."""
        wanted = compiled(pattern, re.IGNORECASE)
        words = needed_words(pattern)
        if words is not None:
            words = frozenset(word for word in words if word in self._all)
            if not words:
                return ()
        return tuple(
            place
            for place, lowered in enumerate(self._lowered)
            if (words is None or any(word in lowered for word in words))
            and wanted.search(self._searched[place])
        )


def _most_of_line(lines: Sequence[str]) -> int:
    """So much of each that they are within the bound together."""
    lengths = sorted(map(len, lines))
    left, most = MOST_SEARCHED, lengths[-1] if lengths else 0
    for place, length in enumerate(lengths):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, _LEAST_OF_LINE)
        left -= length
    return most


def _ends(line: str, most: int) -> str:
    if len(line) <= most:
        return line
    last = most // 4
    return f"{line[: most - last]} ... {line[-last:]}"

"""Stop strings in text that arrives in fragments.

The first stop to be completed wins, and of those that end at one place the longest; so
the outcome depends on the text alone, never on where it was cut. Text is handed on only
when no stop can reach back into it any more::

    seen      the quick brown fo            stops: "fox"
              ---------------               safe: nothing can take it back
                             --             held: may become "fox"
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopResult:
    """Text that is safe to deliver now, and whether a stop ended it."""

    text: str
    is_matched: bool


class StopMatcher:
    """Watches one sequence's text for any of `stops`. Empty stops are refused."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stops)
        if "" in self._stops:
            raise ValueError("an empty stop string would end every answer before it begins")
        self._held = ""
        self._is_matched = False

    def add(self, fragment: str) -> StopResult:
        """Take the next fragment. After a match everything is swallowed."""
        if self._is_matched:
            return StopResult("", True)
        text = self._held + fragment
        start = self._find_first(text)
        if start is not None:
            self._is_matched = True
            self._held = ""
            return StopResult(text[:start], True)
        safe = len(text) - self._num_held(text)
        self._held = text[safe:]
        return StopResult(text[:safe], False)

    def flush(self) -> str:
        """What was held back, once it is known that nothing follows."""
        held, self._held = self._held, ""
        return held

    def _find_first(self, text: str) -> int | None:
        """Where the match begins that is completed first."""
        matches = [
            (start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0
        ]
        return min(matches)[1] if matches else None

    def _num_held(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop."""
        longest = min(len(text), max(map(len, self._stops), default=1) - 1)
        return next(
            (
                length
                for length in range(longest, 0, -1)
                if any(stop.startswith(text[-length:]) for stop in self._stops)
            ),
            0,
        )

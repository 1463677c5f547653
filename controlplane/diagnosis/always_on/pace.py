"""How many replicas of a large fleet are asked in one pass: as many as its share of a core allows.

What a page costs differs by its length, by the rules, and by the machine; so what passes took is
measured, and not guessed.
"""

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings

_LEAST = 8
"""Scrapes in a pass: below that a turn would never end."""
_INERTIA = 0.8
"""Of the number before: a pass in which many looks were due is no reason to ask nobody."""


class Pace:
    """Of one watcher."""

    def __init__(self, settings: AlwaysOnSettings) -> None:
        self._most = settings.max_scrapes
        self._seconds = settings.cpu_share * settings.pass_seconds
        self._number = float(settings.max_scrapes)

    @property
    def num_scrapes(self) -> int:
        """In the next pass."""
        return round(self._number)

    def take(self, cpu_seconds: float) -> None:
        """What the last pass took of a core, with its looks."""
        fitting = self._number * self._seconds / max(cpu_seconds, 1e-6)
        wanted = min(float(self._most), max(float(_LEAST), fitting))
        self._number = _INERTIA * self._number + (1 - _INERTIA) * wanted

"""The times in which an incident was open: its first, and one for each time that it was reopened.
What happened in between is no part of it."""

from collections.abc import Iterable
from dataclasses import dataclass

_NS = 10**9
_MINUTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSpell:
    """One of them."""

    opened_at_unix_ns: int
    """Or reopened."""
    since_unix_ns: int | None
    """When the signal that tells it changed its level; None where that could not be seen."""
    resolved_at_unix_ns: int | None
    """None while it is open."""

    @property
    def began_at_unix_ns(self) -> int:
        """Its onset where that is known, otherwise when it was opened."""
        return self.since_unix_ns or self.opened_at_unix_ns

    def ended_at_unix_ns(self, now_unix_ns: int) -> int:
        """When it was resolved; now while it is open."""
        return self.resolved_at_unix_ns or now_unix_ns


def minutes_of(spells: Iterable[IncidentSpell], now_unix_ns: int) -> list[tuple[int, int]]:
    """From when until before when they lasted, Unix seconds, in whole minutes: counts are kept by
    the minute. None is in two of them."""
    found: list[tuple[int, int]] = []
    for spell in sorted(spells, key=lambda each: each.began_at_unix_ns):
        start = spell.began_at_unix_ns // _NS // _MINUTE * _MINUTE
        last = spell.ended_at_unix_ns(now_unix_ns) // _NS // _MINUTE * _MINUTE
        if found and start <= found[-1][1]:
            start, before = found.pop()
            last = max(last, before - _MINUTE)
        found.append((start, last + _MINUTE))
    return found

"""Whether the process behind one address is another one than before: its counters begin again.

Where several processes answer at one address by turns, figures fall too, and come back. So a fall
is held for some pages before it is believed, and dropped if most of what fell jumps back to where
it was: a new process gets there only at the pace at which it counts. Who was seen to take turns is
held for longer, and not for ever: what looked so may have been a process that was young.

A balancer that stays with each process for minutes, in front of processes that do not say when
they started, cannot be told from a restart.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_NEWER_SECONDS = 1.0
"""A start that is told to differ by less is the same: hosts work it out anew for each page."""
_CALM_PAGES = 60
"""Without a sign of turns, until processes are no longer taken to answer by turns."""
_JUMP = 3.0
"""Times the pace of late: more is no counting but another process."""
_KEPT_PACE = 0.9
"""Of the pace of late, from page to page: a burst counts for some pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What counts on one page."""

    at: float
    """Seconds on one clock for all pages."""
    counters: Mapping[Any, float]
    starts: Mapping[Any, float] = field(default_factory=dict)
    """Of processes, Unix seconds; empty: not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """One process ended and another began."""

    before: Counted
    """The last page of the one."""
    first: Counted
    """And the first of the other."""

    @property
    def fallen(self) -> tuple[Hashable, ...]:
        """Counters that are lower than before."""
        return tuple(_fallen(self.first, self.before))


class TurnoverWatch:
    """Of one address. `take` its pages in time order."""

    def __init__(self, num_held: int) -> None:
        """`num_held`: pages of the new process, from its first, until it is believed."""
        self.last: Turnover | None = None
        """The newest that was seen for sure."""
        self.num_turns = 0
        """How often a process that had gone was back."""
        self._num_held = num_held
        self._newest: Counted | None = None
        self._held: Turnover | None = None
        self._num_since = 0
        """Pages since the one that is held began."""
        self._is_overtaken = False
        """What is held counted as far as the one before."""
        self._calm = _CALM_PAGES
        self._pace: dict[Hashable, float] = {}

    def take(self, page: Counted) -> None:
        """One more."""
        before, self._newest = self._newest, page
        if before is None:
            return
        self._calm += 1
        self._num_since += 1
        if _is_older(page, before) or self._is_back(page, before):
            self._note_turn()
        elif _is_anew(page, before):
            self._hold(Turnover(before=before, first=page))
        else:
            self._follow(page, before)
        self._believe()

    def _note_turn(self) -> None:
        self.num_turns += 1
        self._calm = 0
        self._held = None

    def _hold(self, turnover: Turnover) -> None:
        """One that falls again, after it was where the one before had been, may be that one."""
        if self._held is not None and self._is_overtaken:
            self._note_turn()
        self._held = turnover
        self._num_since, self._is_overtaken = 1, False

    def _is_back(self, page: Counted, before: Counted) -> bool:
        """Whether it jumps to where the process before the one that is held was."""
        if self._held is None or _are_told(page, before):
            return False
        seconds = page.at - before.at
        back = [
            key
            for key in self._reached(page)
            if page.counters[key] - before.counters.get(key, 0.0)
            > _JUMP * self._pace.get(key, 0.0) * seconds
        ]
        return 2 * len(back) > len(self._held.fallen)

    def _reached(self, page: Counted) -> list[Hashable]:
        """Of what fell, what is as high as before the fall."""
        if self._held is None:
            return []
        old = self._held.before.counters
        return [key for key in self._held.fallen if page.counters.get(key, 0.0) >= old[key]]

    def _follow(self, page: Counted, before: Counted) -> None:
        """The same process counts on."""
        seconds = page.at - before.at
        for key, value in page.counters.items():
            rise = value - before.counters.get(key, value)
            pace = rise / seconds if seconds > 0 else 0.0
            self._pace[key] = max(pace, _KEPT_PACE * self._pace.get(key, 0.0))
        self._pace = {key: self._pace[key] for key in page.counters}
        if self._held is not None and 2 * len(self._reached(page)) > len(self._held.fallen):
            self._is_overtaken = True

    def _believe(self) -> None:
        if self._held is None or self._calm < _CALM_PAGES:
            return
        if self._num_since >= self._num_held:
            self.last, self._held = self._held, None


def takes_turns(pages: Iterable[Counted]) -> bool:
    """Whether several processes answer: one that had gone is back on a later page."""
    watch = TurnoverWatch(num_held=_CALM_PAGES)
    for page in pages:
        watch.take(page)
    return watch.num_turns > 0


def _fallen(page: Counted, before: Counted) -> Iterator[Hashable]:
    for key, value in page.counters.items():
        if value < before.counters.get(key, -math.inf):
            yield key


def _is_anew(page: Counted, before: Counted) -> bool:
    """Most of what it counts fell, and its start is newer where that is told: a clock that is set
    moves the start alone, and who sets counters back is no new process."""
    num_counted = sum(before.counters.get(key, 0.0) > 0 for key in page.counters)
    num_fallen = len(list(_fallen(page, before)))
    if _are_told(page, before):
        return _is_newer(page, before) and (num_counted == 0 or 2 * num_fallen > num_counted)
    return 2 * num_fallen > num_counted


def _are_told(page: Counted, before: Counted) -> bool:
    return bool(page.starts.keys() & before.starts.keys())


def _is_newer(page: Counted, before: Counted) -> bool:
    both = page.starts.keys() & before.starts.keys()
    return any(page.starts[key] - before.starts[key] > _NEWER_SECONDS for key in both)


def _is_older(page: Counted, before: Counted) -> bool:
    return _is_newer(before, page)

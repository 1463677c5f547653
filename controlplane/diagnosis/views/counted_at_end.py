"""Counters that move when a request is done, by all its tokens at once.

Between two scrapes such a counter tells who ended, and no speed:

tokens     0    0    0  128  128  128  256  256  256 ...
by scrape       0    0  128    0    0  128    0    0      a course of nothing
by spans                 |- from an end to a later end -|  tokens a second

So their rates are taken from the moment of one end to that of another with several between, which
holds whole answers alone. Time without an end is of an answer that is still being written, unless
no step ends in it either.
"""

import itertools
from dataclasses import replace

from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, SignalKind
from dataplane.engine_metrics.tables import TABLES

ENDS_OF_A_SPEED = 6
"""In one span: a scrape more or less is then little of its time."""
REQUESTS_OF_A_SHARE = 8
"""In one point of a course of shares: a prompt finds what it shares or nothing, and fewer of them
make any share by chance."""
_LEAST_ENDS = 3
"""With fewer there is no speed at all."""

_STANDS_SECONDS = 15.0
"""Without a step, or anything running: a batch of a prompt takes seconds on a CPU."""

_TOKENS = (
    Signal.GENERATION_TOKENS,
    Signal.PROMPT_TOKENS,
    Signal.COMPUTED_PROMPT_TOKENS,
    Signal.CACHED_PROMPT_TOKENS,
)
_ALIASES = tuple(alias for table in TABLES for alias in table.aliases)
_KNOWN = frozenset(alias.exported for alias in _ALIASES)
_AT_END = frozenset(alias.exported for alias in _ALIASES if alias.is_counted_at_end)

_FEWEST_INTERVALS = 8
_MOSTLY = 0.6
"""Of the intervals with requests running: nothing is counted in them."""
_AN_ANSWER = 16.0
"""Tokens: nobody steps by so many for one request, but for drafts."""
_ALIKE = 4.0
"""Times the smallest jump: one answer, or those of a few that ended together."""


def is_counted_at_end(counter: Series, window: Window) -> bool:
    """By its name, or by its looks: a name that no table has, which stands in most intervals while
    requests run and jumps by about an answer else."""
    if counter.origin.name in _AT_END:
        return True
    return counter.origin.name not in _KNOWN and _looks_so(counter, window)


def is_told_by_ends(counter: Series, window: Window) -> bool:
    """Whether it is counted so, and its scrapes are close enough to show it: one interval at least
    without an end while requests run."""
    return is_counted_at_end(counter, window) and any(
        grown == 0 for grown in _grown_while_running(counter, window)
    )


def for_speeds(counter: Series, window: Window) -> Series | None:
    """The counter as speeds may be taken from it; None where they may not."""
    return between_ends(counter, window) if is_told_by_ends(counter, window) else counter


def between_ends(
    counter: Series, window: Window, least: int = ENDS_OF_A_SPEED, fewest: int = _LEAST_ENDS
) -> Series | None:
    """Of one that `is_told_by_ends`, the readings at which requests had ended, `least` ends apart;
    with fewer the first and last end, if they are `fewest` apart. After them, where steps stand
    still as well, what it read since. None where too few ended for any speed."""
    pairs = itertools.pairwise(counter.readings)
    ends = [after for before, after in pairs if after.value != before.value]
    still = _standing(counter, window, ends)
    if len(ends) > least:
        return _with(counter, [*ends[::-1][::least][::-1], *still])
    if len(ends) > fewest:
        return _with(counter, [ends[0], ends[-1], *still])
    return _with(counter, still)


def _with(counter: Series, readings: list[Reading]) -> Series | None:
    return replace(counter, readings=tuple(readings)) if len(readings) > 1 else None


def _standing(counter: Series, window: Window, ends: list[Reading]) -> list[Reading]:
    """Its readings since its last end, from when no step ends any more or nothing runs: nothing is
    done in them for sure."""
    steps, running = window.find(Signal.STEPS), window.find(Signal.RUNNING)
    if steps is None and not ends:
        return list(counter.readings)
    last = ends[-1].at if ends else counter.first.at
    stood = [] if steps is None else [_stands_since(steps)]
    if running is not None and running.last.value == 0:
        stood.append(_stands_since(running))
    since = max(last, min(stood, default=float("inf")))
    kept = [reading for reading in counter.readings if reading.at >= since]
    is_long = len(kept) > 1 and kept[-1].at - kept[0].at >= _STANDS_SECONDS
    return kept if is_long else []


def _stands_since(series: Series) -> float:
    """The first of its newest readings that are alike."""
    newest = itertools.takewhile(
        lambda reading: reading.value == series.last.value, reversed(series.readings)
    )
    return min(reading.at for reading in newest)


def _grown_while_running(counter: Series, window: Window) -> list[float]:
    running = window.find(Signal.RUNNING)
    grown = []
    for before, after in itertools.pairwise(counter.readings):
        beside = (None, None) if running is None else (running.at(before.at), running.at(after.at))
        if all(each is not None and each.value > 0 for each in beside):
            grown.append(after.value - before.value)
    return grown


def _looks_so(counter: Series, window: Window) -> bool:
    if counter.signal not in _TOKENS or counter.signal.terms.kind is not SignalKind.COUNTER:
        return False
    grown = _grown_while_running(counter, window)
    jumps = [each for each in grown if each != 0]
    if len(grown) < _FEWEST_INTERVALS or len(jumps) < _LEAST_ENDS:
        return False
    is_mostly_still = len(grown) - len(jumps) >= _MOSTLY * len(grown)
    return is_mostly_still and min(jumps) >= _AN_ANSWER and max(jumps) <= _ALIKE * min(jumps)

"""Blocks, permits, descriptors and the like that somebody counted, and that do not come back."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules.life.callers_gone import callers_gone
from controlplane.diagnosis.some_callers import is_of_some
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_no,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.views.truth import Truth
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


def told_held(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Blocks or slots are in use with nothing under way, and more each time that it was looked."""
    held = course_of(
        now.window,
        Signal.KV_BLOCKS_HELD,
        r"(blocks?|pages?|slots?|seats?|handles?|buffers?|adapters?)( \w+)* "
        r"(in use|used|held|allocated|taken|occupied|leaked)",
        without=r"max|limit|total|free|cached|pool|seconds",
    )
    return _rounds(argument, now, truth, held, sign=1.0)


_THINGS = (
    r"(permits?|leases?|slots?|seats?|handles?|sessions?|connections?|descriptors?|fds?|sockets?"
    r"|contexts?|tickets?|semaphores?|references?|threads?|buffers?|blocks?)"
)


def held_beyond_wanted(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """More of them are held than anybody wants, and the more the later."""
    wanted = None if truth.in_flight is None or is_of_some(truth.in_flight) else truth.in_flight
    for held in _counted(now.window):
        apart = [
            (reading.at, reading.value - there.value)
            for reading in held.readings
            if wanted is not None and (there := wanted.at(reading.at)) is not None
        ]
        rises = [more for _, more in apart]
        if len(rises) < _LEAST_ROUNDS or sorted(rises) != rises or wanted is None:
            continue
        if rises[-1] < _MANY_TIMES * max(rises[0], 1.0) or rises[-1] < wanted.max:
            continue
        argument.series(held, "held, and never given back")
        argument.series(wanted, "all that anybody wants")
        if callers_gone(argument, now):
            return Confidence.CERTAIN
        return _unless_kept(argument, now.window, held)
    return None


_KEPT = (
    r"\b(threads?|connections?|sockets?|descriptors?|fds?|adapters?|sessions?|contexts?|handles?"
    r"|buffers?|blocks?|pages?)\b"
)
"""Pools and caches keep these when a request ends, by design: keep-alive, workers, adapters that
were loaded, blocks that can be reused."""
_NEAR = 0.8
"""Of a limit: what is kept on purpose stays well below."""
_BY_REQUESTS = r"\b(requests?|leaked|orphan\w*|unreleased|owner\w*)\b"


def _unless_kept(argument: Argument, window: Window, held: Series) -> Confidence:
    """LIKELY for what ends with its request, or comes near its limit."""
    key = plain(held.origin.name)
    things = re.search(_KEPT, key)
    if things is None or re.search(_BY_REQUESTS, key):
        return Confidence.LIKELY
    limits = told_all(window, rf"(?=.*\b{things[0].rstrip('s')})(?=.*\b(max|limit|total|pool)\b)")
    for limit in limits:
        if limit.value and held.last.value >= _NEAR * limit.value:
            argument.fact(limit)
            return Confidence.LIKELY
    argument.against(f"{things[0]} are kept for reuse by design, up to a limit")
    argument.need(f"limit of {things[0]}", f"{things[0]} held by requests, apart from those kept")
    return Confidence.POSSIBLE


def _counted(window: Window) -> list[Series]:
    """Each key of such things that was told as often as it takes."""
    by_key: dict[str, list[Fact]] = {}
    for fact in told_all(
        window, rf"\b{_THINGS}\b", without=r"max|limit|total|free|in ?flight|client"
    ):
        if fact.value is not None and fact.unit is None and fact.part is None:
            by_key.setdefault(fact.key, []).append(fact)
    return [
        Series(
            signal=Signal.KV_BLOCKS_HELD,
            origin=Origin(kind=SourceKind.GATEWAY, name=key),
            readings=tuple(Reading(fact.at, fact.value or 0.0, fact.raw) for fact in facts),
        )
        for key, facts in by_key.items()
        if len(facts) >= _LEAST_ROUNDS
    ]


_MANY_TIMES = 3.0


def told_free(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Fewer blocks or slots are free each time that nothing is under way."""
    free = course_of(
        now.window,
        Signal.KV_BLOCKS_FREE,
        r"(blocks?|pages?|slots?|seats?|handles?)( \w+)* (free|available|left)"
        r"|(free|available) (blocks?|pages?|slots?|seats?|handles?)",
        without=r"max|limit|total|cached|seconds|memory",
    )
    return _rounds(argument, now, truth, free, sign=-1.0)


def _rounds(
    argument: Argument, now: Activity, truth: Truth, course: Series | None, *, sign: float
) -> Confidence | None:
    wanted_by = truth.in_flight if truth.in_flight is not None else now.running
    if course is None or len(course.readings) < _LEAST_ROUNDS or wanted_by is None:
        return None
    if wanted_by.last.value != 0:
        return None
    values = [
        sign * reading.value
        for reading in course.readings
        if (wanted := wanted_by.at(reading.at)) is not None
        and wanted.value == 0
        and not _runs(now, reading.at)
    ]
    if len(values) < _LEAST_ROUNDS or sorted(values) != values or values[-1] <= values[0]:
        return None
    argument.series(course, "with nothing under way, and never back")
    for sentence in truth.says:
        argument.says(sentence)
    cached = told_number(now.window, r"cached|evictable|reclaimable|hits")
    value = number_of(cached)
    off = told(now.window, r"prefix cach|radix|caching|reuse")
    argument.fact(cached)
    argument.fact(off)
    if value is not None and value >= values[-1] - values[0]:
        argument.against("what is cached may be all of it: cached blocks are free to go")
        argument.need("blocks that requests hold, apart from those that are cached")
        return Confidence.POSSIBLE
    gone = callers_gone(argument, now)
    is_proven = gone or says_no(off) or value == 0
    if is_proven:
        return Confidence.CERTAIN
    return Confidence.LIKELY if sign < 0 else _unless_kept(argument, now.window, course)


def _runs(now: Activity, at: float) -> bool:
    """The engine says so: a short request that a gateway's reports fall beside, or a seat that is
    not given back, of which `held_seats` tells."""
    running = None if now.running is None else now.running.at(at)
    return running is not None and running.value > 0


_LEAST_ROUNDS = 3

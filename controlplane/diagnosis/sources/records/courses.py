"""How many were under way, and how many had ended, from moment to moment: from the records' times.

What is missing in a record is left out and never zero: of requests whose end nobody saw there is no
course of those in flight where they are more than a few, and what engines worked on is told only
where they showed it.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.sources.records.ended_request import EndedRequest
from controlplane.diagnosis.sources.records.ending_facts import TURNED_AWAY
from controlplane.diagnosis.sources.records.ending_series import by_records, ended, refused
from controlplane.diagnosis.sources.records.span import Span
from dataplane.engine_metrics.signal import Signal

OF_ENGINES = frozenset({Signal.RUNNING, Signal.FINISHED})
"""What engines tell of themselves as well, and know better."""
FEW_UNSEEN = 0.01
"""Of the requests, whose end nobody saw: they are left out of those in flight."""


def courses_of(requests: Sequence[EndedRequest], span: Span, place: str) -> Iterator[Series]:
    """Of requests in order of arrival, over `span`."""
    moments = span.moments()
    yield _course(
        Signal.GATEWAY_ARRIVED,
        "requests that arrived",
        place,
        _reached(moments, (each.arrived_at for each in requests)),
    )
    yield from _endings(requests, moments, place)
    yield from _tokens(requests, moments, place)
    seen = [each for each in requests if each.lasted is not None]
    if len(requests) - len(seen) <= FEW_UNSEEN * len(requests):
        yield from _under_way(seen, moments, place)


def _endings(
    requests: Sequence[EndedRequest], moments: Sequence[float], place: str
) -> Iterator[Series]:
    by_end: defaultdict[str, list[float]] = defaultdict(list)
    by_reason: defaultdict[str, list[float]] = defaultdict(list)
    for each in requests:
        if each.lasted is None:
            continue
        at = each.arrived_at + each.lasted
        by_end[each.disposition].append(at)
        if each.disposition in TURNED_AWAY:
            by_reason[each.refusal or each.disposition].append(at)
    for word, times in sorted(by_end.items()):
        yield ended(word, _reached(moments, times), place)
    for reason, times in sorted(by_reason.items()):
        yield refused(reason, _reached(moments, times), place)
    answered = [
        each.arrived_at + each.lasted
        for each in requests
        if each.is_answered and each.lasted is not None
    ]
    if answered:
        readings = _reached(moments, answered)
        yield _course(Signal.FINISHED, "requests answered whole", place, readings)


def _tokens(
    requests: Sequence[EndedRequest], moments: Sequence[float], place: str
) -> Iterator[Series]:
    """Counted when their requests end, as gateways count them; nothing where no record says."""
    for signal, name, amounts in (
        (
            Signal.GATEWAY_PROMPT_TOKENS,
            "prompt tokens of requests whose work began",
            [None if each.scheduled is None else each.num_prompt_tokens for each in requests],
        ),
        (
            Signal.GATEWAY_CACHED_TOKENS,
            "prompt tokens that were reused",
            [each.num_cached_tokens for each in requests],
        ),
        (
            Signal.GATEWAY_OUTPUT_TOKENS,
            "tokens of answers",
            [each.num_output_tokens for each in requests],
        ),
    ):
        told = sorted(
            (each.arrived_at + each.lasted, amount)
            for each, amount in zip(requests, amounts, strict=True)
            if amount is not None and each.lasted is not None
        )
        if told:
            yield _course(signal, name, place, _summed(moments, told))


def _under_way(
    requests: Sequence[EndedRequest], moments: Sequence[float], place: str
) -> Iterator[Series]:
    arrived = [each.arrived_at for each in requests]
    over = [each.arrived_at + (each.lasted or 0.0) for each in requests]
    left = [
        each.arrived_at + (each.scheduled if each.scheduled is not None else each.lasted or 0.0)
        for each in requests
    ]
    yield _course(
        Signal.GATEWAY_IN_FLIGHT, "requests in flight", place, _between(moments, arrived, over)
    )
    yield _course(
        Signal.GATEWAY_QUEUED,
        "requests waiting for engine work",
        place,
        _between(moments, arrived, left),
    )
    begun = [each for each in requests if each.scheduled is not None]
    if begun and all(each.is_work_observed for each in begun):
        began = [each.arrived_at + (each.scheduled or 0.0) for each in begun]
        done = [each.arrived_at + (each.finished or each.lasted or 0.0) for each in begun]
        readings = _between(moments, began, done)
        yield _course(Signal.RUNNING, "requests that engines work on", place, readings)


def _course(signal: Signal, name: str, place: str, readings: Sequence[Reading]) -> Series:
    return Series(signal=signal, origin=by_records(name, place), readings=tuple(readings))


def _reached(moments: Sequence[float], times: Iterable[float]) -> list[Reading]:
    """How many of `times` had come by each moment, from the first on: by that one none."""
    in_order = sorted(times)
    before = bisect.bisect_left(in_order, moments[0])
    reached = [bisect.bisect_right(in_order, at) - before for at in moments[1:]]
    return [_reading(at, number) for at, number in zip(moments, [0, *reached], strict=True)]


def _summed(moments: Sequence[float], told: Sequence[tuple[float, int]]) -> list[Reading]:
    """What had been told in all by each moment, from the first on: by that one nothing."""
    readings, total = [_reading(moments[0], 0)], 0
    place = bisect.bisect_left(told, (moments[0], 0))
    for at in moments[1:]:
        while place < len(told) and told[place][0] <= at:
            total += told[place][1]
            place += 1
        readings.append(_reading(at, total))
    return readings


def _between(
    moments: Sequence[float], begun: Iterable[float], over: Iterable[float]
) -> list[Reading]:
    """How many had begun and were not over."""
    first, last = sorted(begun), sorted(over)
    return [
        _reading(at, bisect.bisect_right(first, at) - bisect.bisect_right(last, at))
        for at in moments
    ]


def _reading(at: float, value: float) -> Reading:
    return Reading(at, float(value), plain_number(value))

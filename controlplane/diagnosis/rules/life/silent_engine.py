"""Replicas that showed pages, and take calls of which none is answered any more."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import grown
from controlplane.diagnosis.views.told import told
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import NO_ANSWER
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 10.0
"""Two scrapes that time out. One may meet a long pause."""
_TIMED_OUT = re.compile(NO_ANSWER, re.IGNORECASE)
"""A process that died refuses connections; one that stands still takes them and says nothing."""
_ANSWERS = frozenset({"stop", "length"})


class SilentReplica(NamedTuple):
    """One of them."""

    name: str
    seconds: float
    """Since the first call that was not answered."""
    why: Fact
    """What came of the last call."""
    told: Fact
    """For how long."""


def silent_replicas(window: Window) -> tuple[SilentReplica, ...]:
    """Those that were asked, and answered before."""
    return tuple(_silent(window))


def _silent(window: Window) -> Iterator[SilentReplica]:
    reasons = {fact.part: fact for fact in window.facts_of("scrape failure")}
    for fact in window.facts_of("shows no page since"):
        if fact.part is None or fact.value is None:
            continue
        why = reasons.get(fact.part)
        if why is not None and fact.value >= _LEAST_SECONDS and _TIMED_OUT.search(why.raw):
            yield SilentReplica(fact.part, fact.value, why, fact)


def answers_since(window: Window, start: float) -> float | None:
    """Whole answers that gateways handed out since then; None where nobody counts them."""
    counted = window.all_series(Signal.GATEWAY_ENDED)
    if not counted:
        return None
    return sum(
        grown(each, start, window.end)
        for each in counted
        if each.labels.get("disposition") in _ANSWERS
    )


def judge_silent(window: Window) -> Verdict | None:
    """LIKELY where somebody beside the scrapes meets the same silence: gateways whose own calls are
    not answered, or whose requests reach no end; or, where no gateway is there to ask, its health
    page."""
    silent = silent_replicas(window)
    if not silent:
        return None
    start = window.end - min(each.seconds for each in silent)
    argument = Argument(window)
    for each in silent:
        argument.fact(each.why, f"it takes calls, and answered none for {number(each.seconds)} s")
        argument.fact(each.told)
    argument.fact(told(window, r"^scrapes unanswered$"))
    lost = _lost_to_gateways(argument, window, silent)
    is_ill = _is_health_silent(argument, window, silent)
    answers = answers_since(window, start)
    if answers and not lost:
        return None
    in_flight = window.find(Signal.GATEWAY_IN_FLIGHT)
    waits = answers == 0 and in_flight is not None and in_flight.last.value > 0
    if waits:
        argument.series(in_flight, "somebody waits")
    if answers == 0:
        argument.says(f"gateways handed out no answer for {number(window.end - start)} s")
    for series in _refused_since(window, start):
        reason = series.labels.get("reason", "")
        count = number(grown(series, start, window.end))
        argument.says(f"{series.origin.name}: {count} refused meanwhile ({reason})")
    argument.against("a process that is gone: its port would refuse connections")
    argument.against("telemetry.stale: nothing at all is answered")
    argument.need("the end of its log", "its stacks, before a restart takes them away")
    if not (lost or waits):
        argument.need("a one-token probe")
    return argument.verdict(
        Confidence.LIKELY if lost or waits or is_ill else Confidence.POSSIBLE,
        detail=f"it fell silent: {', '.join(each.name for each in silent)}",
    )


def _lost_to_gateways(
    argument: Argument, window: Window, silent: tuple[SilentReplica, ...]
) -> bool:
    """Their calls to it time out, too."""
    fact = told(window, r"^replicas unreachable$")
    if fact is None or not _TIMED_OUT.search(fact.raw):
        return False
    if not any(each.name in fact.raw for each in silent):
        return False
    argument.fact(fact, "what gateways ask it is not answered either")
    return True


def _is_health_silent(
    argument: Argument, window: Window, silent: tuple[SilentReplica, ...]
) -> bool:
    """Of one of them, that was asked for it."""
    names = {each.name for each in silent}
    for fact in window.facts_of("answer of health"):
        if fact.part in names and _TIMED_OUT.search(fact.raw):
            argument.fact(fact, "its port takes connections, and its health page is silent too")
            argument.against("delivery.front_end_bound: a busy front end answers /health first")
            return True
    return False


def _refused_since(window: Window, start: float) -> Iterator[Series]:
    for series in window.all_series(Signal.GATEWAY_REJECTED):
        if grown(series, start, window.end) > 0:
            yield series

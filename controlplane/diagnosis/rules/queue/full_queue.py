"""Refusals for want of seats: the queue before the engine is full, or would outlast a deadline."""

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_OF_THE_QUEUE = frozenset({"queue_full", "queue_age", "deadline_unreachable"})
"""Codes of our gateways: as many wait as may, for as long as may be."""
_AS_BEFORE = 0.5
"""Of the answers a second: an engine that became slower is another trouble."""
_NEARLY_ALL = 0.95
"""Of what was refused."""


def are_for_want_of_seats(window: Window, now: Activity) -> bool:
    """Bounds of the queue refuse them while all seats are taken, or while others wait there past
    their deadlines: a higher bound makes nobody be served sooner."""
    if now.has_all_seats_taken is False or not _are_of_the_queue(window):
        return False
    return bool(now.has_all_seats_taken) or num_past_deadlines(window) > 0


def cite_refused(argument: Argument, window: Window, now: Activity) -> None:
    """What a queue that is full refuses, and what waits in it in vain."""
    if not are_for_want_of_seats(window, now):
        return
    for series in window.all_series(Signal.GATEWAY_REJECTED):
        if series.increase:
            argument.series(series, "refused because of what waits before it")
    for series in window.all_series(Signal.GATEWAY_ENDED):
        if series.labels.get("disposition") == "deadline" and series.increase:
            argument.series(series, "they waited for a seat until their deadline had passed")


def limit_by_refusals(window: Window, now: Activity) -> str:
    """What is full, where nobody tells what runs and the queue tells it: requests are refused
    because of those before them, others wait past their deadlines, and as many are answered as
    before. Empty where that is not so."""
    if now.running is not None or not are_for_want_of_seats(window, now):
        return ""
    if not _answers_as_before(now):
        return ""
    return "all seats are taken, as the queue before them tells"


def _answers_as_before(now: Activity) -> bool:
    """In the second half of what was seen about as many as in the first."""
    finished = now.finished
    if finished is None:
        return False
    middle = (finished.first.at + finished.last.at) / 2
    halves = (
        finished.between(finished.first.at, middle),
        finished.between(middle, finished.last.at),
    )
    before, after = (0.0 if half is None else half.increase or 0.0 for half in halves)
    return after > 0 and after >= _AS_BEFORE * before


def num_past_deadlines(window: Window) -> float:
    """How many waited in our queue until their deadline had passed."""
    return sum(
        series.increase or 0.0
        for series in window.all_series(Signal.GATEWAY_ENDED)
        if series.labels.get("disposition") == "deadline"
    )


def _are_of_the_queue(window: Window) -> bool:
    refused = of_queue = 0.0
    for series in window.all_series(Signal.GATEWAY_REJECTED):
        grown = series.increase or 0.0
        refused += grown
        of_queue += grown if series.labels.get("reason") in _OF_THE_QUEUE else 0.0
    return refused > 0 and of_queue >= _NEARLY_ALL * refused

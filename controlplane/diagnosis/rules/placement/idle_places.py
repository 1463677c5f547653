"""Some of many get nothing at all for minutes, while the others have plenty."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.pool import are_one_pool
from controlplane.diagnosis.views.spread import Spread, spread_of
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 60.0
_FEWEST = 3
"""Places: of two, one may be spare."""
_EACH = 8.0
"""Requests in flight for each place: with so many none is left out by chance."""
_READY = r"(?=.*\bready\b)(?=.*\b(workers?|replicas?|pods?|engines?|servers?|nodes?|ranks?)\b)"
_RUNNING = r"\b(running|active requests)\b"


def idle_places(window: Window) -> Verdict | None:
    """By what runs where all places are known to be ready, else by the blocks that requests hold:
    CERTAIN where all are known to be and it lasts, else LIKELY."""
    held, now = _load_of(window), activity_of(window)
    if held is None or len(held.by_place) < _FEWEST or _waits_there(window, held):
        return None
    idle, places = _always_idle(held), len(held.by_place)
    if not idle or now.in_flight is None or now.in_flight.last.value < _EACH * places:
        return None
    ready = told_number(window, _READY)
    is_known = number_of(ready) == places
    if not are_one_pool(window, held.by_place) or (ready is not None and not is_known):
        return None
    argument = Argument(window)
    argument.across(held.series, held.says)
    argument.says(f"idle all the time: {', '.join(idle)}")
    argument.series(now.in_flight, "more than enough for each")
    argument.fact(ready)
    for fact in _beside(window):
        argument.fact(fact)
    argument.against("queue.overload: others have room for what these have too much of")
    argument.against("phase.mismatch: they are of one phase")
    detail = f"{len(idle)} of {places} have nothing"
    if is_known and held.series:
        return argument.verdict(Confidence.CERTAIN, detail=detail)
    argument.need("the same figures a minute later, and which of them are ready")
    return argument.verdict(Confidence.LIKELY, detail=detail)


def _load_of(window: Window) -> Spread | None:
    running = spread_of(window, Signal.RUNNING, _RUNNING)
    if running is None:
        return spread_of(window, Signal.KV_BLOCKS_HELD)
    return running if told_number(window, _READY) is not None else None


def _waits_there(window: Window, load: Spread) -> bool:
    """Then it is no matter of routing that nothing runs there."""
    waiting = spread_of(window, Signal.WAITING)
    return waiting is not None and any(waiting.by_place.get(place) for place in load.idle)


def _always_idle(load: Spread) -> tuple[str, ...]:
    """Places with nothing in any reading, over a minute each: one that has just come is no such.
    Of what was told, those with nothing now."""
    if not load.series:
        return tuple(place for place in load.idle if not load.before.get(place))
    return tuple(
        place
        for place in load.idle
        if all(
            series.max == 0 and series.span_seconds >= _LEAST_SECONDS
            for series in load.series
            if place in series.labels.values()
        )
    )


def _beside(window: Window) -> tuple[Fact, ...]:
    """What else tells how much each has to do."""
    return told_all(window, r"\bpower\b|requests to\b|shared|routed")

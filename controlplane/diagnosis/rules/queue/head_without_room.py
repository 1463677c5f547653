"""The first in the queue wants more blocks than are free, and those behind it would fit."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.head_wants import LEAST_SECONDS, LONGER
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import is_sustained, stretch_while
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.queue_order import QueueOrder, queue_order
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN
from dataplane.engine_metrics.signal import Signal, Unit

_FITS = 0.5
"""Of what is free: the rest is for the answer, which some schedulers promise room as well."""
_STANDS = 0.9
"""Of the queue at its longest: what has fallen further is let in."""
_SAME = 1.25
"""Times: first tokens of short and of long prompts that wait for the same."""


def by_room(now: Activity) -> Verdict | None:
    """CERTAIN where blocks are free in plenty; LIKELY beside an almost full cache, where a
    scheduler may keep what is left for those that run."""
    order = queue_order(now.window)
    waiting = stretch_while(now.backlog, lambda value: value > 0)
    free = _free(now)
    if order is None or waiting is None or free is None or not _holds_up(now, order, free):
        return None
    if not _stands(waiting) or now.has_all_seats_taken or now.is_moving is False:
        return None
    thrown = preempting(now)
    if thrown is not None and thrown.is_costly:
        return None
    argument = Argument(now.window)
    _cite(argument, now, order, free)
    sure = now.has_room and is_sustained(waiting, LEAST_SECONDS) and now.is_moving
    return argument.verdict(
        Confidence.CERTAIN if sure else Confidence.LIKELY,
        detail="the head does not fit",
        remedy="Let admission look past a head that does not fit, with a bound on how often, or "
        "give long prompts a class of their own.",
    )


def _free(now: Activity) -> float | None:
    """Tokens, by the cache's size and its usage."""
    capacity = now.room_of_one
    return None if capacity is None or now.kv is None else (1 - now.kv.last.value) * capacity


def _holds_up(now: Activity, order: QueueOrder, free: float) -> bool:
    """The head does not fit now and would fit alone; the one behind it fits now. Somebody runs, or
    the head would be let in."""
    head, behind = order.head.value, order.behind.value
    runs = now.running is not None and now.running.last.value > 0
    is_held = free < head <= (now.room_of_one or 0.0)
    return runs and is_held and behind <= _FITS * free and head >= LONGER * behind


def _stands(waiting: Series) -> bool:
    """Nobody is let in."""
    return len(waiting.readings) > 1 and waiting.last.value >= _STANDS * waiting.max


def _cite(argument: Argument, now: Activity, order: QueueOrder, free: float) -> None:
    argument.series(now.backlog, "nobody is let in")
    argument.series(now.running, f"of {number(now.seats)} seats" if now.seats else "")
    argument.series(now.kv)
    capacity = number(round(now.room_of_one or 0.0))
    argument.says(f"about {number(round(free))} of {capacity} tokens are free")
    argument.fact(order.head.fact, "the first in the queue does not fit")
    argument.fact(order.behind.fact, "behind it: they would fit")
    argument.series(now.window.find(Signal.GENERATION_TOKENS), "what runs makes progress")
    for fact in _first_tokens_alike(now.window):
        argument.fact(fact, "short ones wait as long as long ones")
    argument.against("queue.blocked: what runs makes progress")
    argument.against("queue.never_fits: the head fits the cache once others have ended")
    argument.against("queue.overload: seats are free, and blocks for those behind the head")


def _first_tokens_alike(window: Window) -> tuple[Fact, ...]:
    """Times to the first token, told by length, that are all the same."""
    told = tuple(
        fact
        for fact in told_all(window, FIRST_TOKEN, without=r"alone|before|usual|limit")
        if fact.unit is Unit.SECONDS and fact.part is None and fact.value
    )
    values = [fact.value or 0.0 for fact in told]
    return told if len(told) > 1 and max(values) <= _SAME * min(values) else ()

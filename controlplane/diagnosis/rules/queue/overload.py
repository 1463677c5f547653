"""More arrives than is done: a full batch, a queue that does not get less, and progress."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.queue.demand import PLATEAU, long_wait, more_arrives
from controlplane.diagnosis.rules.queue.full_queue import cite_refused, limit_by_refusals
from controlplane.diagnosis.rules.queue.one_piece import LENGTHS
from controlplane.diagnosis.rules.queue.prompt_demand import prompts_outrun
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import early, is_sustained, late, stretch_while
from controlplane.diagnosis.views.draining import drain_of, wave_of
from controlplane.diagnosis.views.long_prefill import slow_steps
from controlplane.diagnosis.views.pipeline import each_stage
from controlplane.diagnosis.views.places import each_place, with_places
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 14.0
"""Of waiting. An engine looks at its queue every step, and a step takes well under a second; but
two lines of a log, ten seconds apart, do not tell a queue that stays from one that passes."""
_LEAST_DENSE_SECONDS = 9.0
"""Where pages a second or so apart all show it."""
_BATCHES = 4.0
_USUAL_SEATS = 16
"""Limits of a batch are powers of two from here on; a batch that stands at one is at its limit."""
_MOSTLY = 0.7
_MANY_READINGS = 8
_SOME_READINGS = 4
"""Of a server that takes seconds for a page while it is busy."""
_LEAST_BATCH = 4
"""A batch of one or two that stands still says nothing of a limit."""
_GROWN = 1.25
_STAYS = 0.9
_STILL = 0.8
"""Of the most that ran: one reading between the end of some and the start of others."""
_SLOWER = 1.3
_HALF = 0.5
_DEEP = 0.5
"""Of the batch: a queue that long is no fluctuation."""


def judge(window: Window) -> Verdict | None:
    """LIKELY with a full batch and a queue that stays while tokens come, of an engine or of one
    stage of several."""
    return with_places(_judge(window), each_stage(window), _judge)


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    waiting = stretch_while(now.backlog, lambda value: value > 0)
    if now.backlog is None or waiting is None or _nothing_runs(now) or _died(now):
        return None
    moving = now.moves(waiting.first.at, window.end)
    if moving is False or drain_of(now) is not None or wave_of(now) is not None:
        return None
    if moving and _is_next_in_turn(now, waiting):
        return None
    argument = Argument(window)
    told_full = limit_by_refusals(window, now)
    outrun = prompts_outrun(now)
    limit = _limit(now, waiting) or told_full or outrun
    stands_at = _places_that_stand(now)
    _cite(argument, now, waiting, limit)
    lasts = _lasts(now, waiting, argument)
    is_thrash = _weigh_preemptions(now, argument)
    if is_thrash:
        return None
    growing = (bool(more_arrives(now)) or _grows(waiting)) and _stands(now, waiting)
    growing = growing or (bool(outrun) and waiting.last.value > waiting.first.value)
    if _is_slower_and_unknown(now, argument) or _may_be_done_twice(argument, now):
        lasts = False
    if _may_be_one_prompt(argument, now) or _has_free_seats(argument, now):
        lasts = False
    cite_refused(argument, window, now)
    if now.running is None and not more_arrives(now):
        argument.need("requests running over time")
        lasts = False
    if stands_at:
        argument.against(f"most of what waits does so where nothing runs: {', '.join(stands_at)}")
    elif (_is_known(now) or _is_usual(now, limit) or growing or told_full) and lasts and moving:
        return argument.verdict(Confidence.LIKELY, detail=limit)
    _ask(argument, now, limit=limit, lasts=lasts, moving=moving)
    return argument.verdict(Confidence.POSSIBLE, detail=limit)


def _is_next_in_turn(now: Activity, waiting: Series) -> bool:
    """Never more than one waits, whoever it is at the time: as many callers as seats and one more
    look like that for ever. Unless it waits for long, or more is known to arrive than is done."""
    return waiting.max <= 1 and long_wait(now) is None and not more_arrives(now)


def _died(now: Activity) -> bool:
    """Whoever ran out of memory or ended has another trouble than its queue."""
    kinds = (LogKind.OUT_OF_MEMORY, LogKind.HOST_OUT_OF_MEMORY, LogKind.DIED)
    return bool(now.window.events_of(*kinds))


def _places_that_stand(now: Activity) -> tuple[str, ...]:
    """Replicas or ranks at which requests wait and none runs, where most of the queue is there:
    the others' progress is not theirs."""
    if now.waiting is None or now.waiting.last.value <= 0:
        return ()
    stand, at_them = [], 0.0
    for place, part in each_place(now.window):
        running, waiting = part.find(Signal.RUNNING), part.find(Signal.WAITING)
        if running is not None and waiting is not None and running.last.value == 0:
            at_them += waiting.last.value
            stand += [place] if waiting.last.value > 0 else []
    return tuple(stand) if at_them >= _MOSTLY * now.waiting.last.value else ()


def _nothing_runs(now: Activity) -> bool:
    return now.running is not None and now.running.last.value == 0


def _limit(now: Activity, waiting: Series) -> str:
    """What is full; empty where nothing that is known is."""
    if now.is_full:
        return "the KV cache is full"
    if now.has_all_seats_taken:
        return f"all {number(now.seats or 0)} seats are taken"
    running = None if now.running is None else now.running.between(waiting.first.at, now.window.end)
    if running is None or running.max < 1:
        return ""
    most = running.max
    at_most = sum(value >= (1 - PLATEAU) * most for value in running.values)
    if len(running.readings) < 2 or at_most < _MOSTLY * len(running.readings):
        return ""
    if _has_slots(now) and running.is_constant:
        return f"the batch stands at {number(most)}, and who waits does so for a slot"
    is_long = len(running.readings) >= _MANY_READINGS and most >= _LEAST_BATCH
    is_usual = running.is_constant and most >= _USUAL_SEATS and _is_power_of_two(most)
    if now.seats is not None:
        return ""
    if is_long or is_usual:
        return f"the batch stands at {number(most)}, as one at its limit does"
    is_batch = most >= _LEAST_BATCH or bool(now.is_full)
    if is_batch and len(running.readings) > 2 and (now.kv is None or not now.has_room):
        return f"the batch stands at {number(most)}"
    return ""


def _has_slots(now: Activity) -> bool:
    """A request is put off there for one reason alone: no slot is free."""
    return now.window.engine is not None and now.window.engine.name == "llama.cpp"


def _may_be_one_prompt(argument: Argument, now: Activity) -> bool:
    """What runs reads a prompt, as it seems, and those that wait may be short."""
    if slow_steps(now) is None:
        return False
    argument.against("queue.head_of_line: it may be one long prompt that the others wait for")
    argument.need(LENGTHS)
    return True


def _has_free_seats(argument: Argument, now: Activity) -> bool:
    """Most of them, and blocks as well: whoever waits does so for something else."""
    running, seats = now.running, now.seats
    if running is None or seats is None or now.is_full or running.max > _HALF * seats:
        return False
    argument.against(f"{number(seats - running.max)} of {number(seats)} seats are free")
    argument.need("what the waiting requests wait for")
    return True


def _is_known(now: Activity) -> bool:
    """The cache or the seats are full, by figures and not by how it looks."""
    return bool(now.is_full or now.has_all_seats_taken)


def _is_usual(now: Activity, limit: str) -> bool:
    """It stands at a power of two, as limits of a batch are, while the queue is longer than it; of
    slots at whatever number, read often and over time."""
    running = now.running
    if not limit or running is None:
        return False
    if _has_slots(now) and now.seats is None and len(running.readings) >= _SOME_READINGS:
        return running.is_constant and running.span_seconds >= _LEAST_DENSE_SECONDS
    return running.max >= _LEAST_BATCH and _is_power_of_two(running.max)


def _grows(waiting: Series) -> bool:
    """More arrives than is let in, whoever counts it or not."""
    return (
        is_sustained(waiting, _LEAST_SECONDS)
        and late(waiting) >= _GROWN * early(waiting)
        and waiting.last.value >= waiting.first.value + _LEAST_BATCH
    )


def _stands(now: Activity, waiting: Series) -> bool:
    """The batch does not grow while more and more wait."""
    running = None if now.running is None else now.running.between(waiting.first.at, now.window.end)
    return (
        running is not None
        and len(running.readings) > 1
        and running.mean >= (1 - PLATEAU) * running.max
        and running.last.value >= _STILL * running.max
        and waiting.last.value >= _STAYS * waiting.first.value
    )


def _is_slower_and_unknown(now: Activity, argument: Argument) -> bool:
    """Tokens come more slowly than before, and nobody counts preemptions: then a full cache may be
    one in which work is done twice."""
    if not now.is_full or preempting(now) is not None:
        return False
    for slow in slowdowns(now.window):
        if slow.factor >= _SLOWER and not re.search(
            r"ttft|first token|queue|wait", slow.contrast.keys
        ):
            argument.says(slow.says)
            argument.need(
                "preemptions, retractions or pauses over time",
                "prefill tokens computed over time",
                "what was changed when it got slower",
            )
            return True
    return False


def _may_be_done_twice(argument: Argument, now: Activity) -> bool:
    """The cache is full, nobody counts who is thrown out of it, and neither arrivals nor answers
    nor prompts that are let in show that work gets done once."""
    if not now.is_full or now.has_all_seats_taken or preempting(now) is not None:
        return False
    if more_arrives(now) or (now.finished is not None and (now.finished.increase or 0.0) > 0):
        return False
    lets_in = now.prefill is not None and late(now.prefill) > 0
    if lets_in:
        return False
    argument.need(
        "preemptions or retractions over time",
        "arrivals and answers in the same time",
        "requests in flight at the gateway",
    )
    return True


def _is_power_of_two(value: float) -> bool:
    return value == int(value) and int(value) & (int(value) - 1) == 0


def _cite(argument: Argument, now: Activity, waiting: Series, limit: str) -> None:
    argument.series(now.running, limit)
    argument.series(waiting, "the queue does not get less" if len(waiting.readings) > 1 else "")
    argument.series(now.in_flight)
    argument.series(now.kv)
    for signal in (Signal.GENERATION_TOKENS, Signal.FINISHED):
        argument.series(now.window.find(signal), "work goes on")
    if now.window.find(Signal.GENERATION_TOKENS) is None:
        argument.series(now.decode, "work goes on")


def _lasts(now: Activity, waiting: Series, argument: Argument) -> bool:
    """Whether it is a state and no moment: read over time, or the waits are long, or more is known
    to arrive than is done."""
    wait = long_wait(now)
    if wait is not None:
        if wait.fact is not None:
            argument.fact(wait.fact, "time spent waiting")
        else:
            argument.says(wait.says)
    growth = more_arrives(now)
    if growth:
        argument.says(growth)
    if _stands_above(now, waiting) or is_sustained(waiting, _LEAST_SECONDS):
        return _is_deep(now, waiting) or wait is not None or bool(growth)
    return wait is not None or bool(growth)


def _stands_above(now: Activity, waiting: Series) -> bool:
    """Several batches wait in each of many readings, and none of them is let in for good: shorter
    than a queue of one batch needs to be seen."""
    running = now.running
    return (
        running is not None
        and len(waiting.readings) >= _MANY_READINGS
        and is_sustained(waiting, _LEAST_DENSE_SECONDS)
        and waiting.min >= _BATCHES * max(running.mean, 1.0)
        and late(waiting) >= _STAYS * early(waiting)
    )


def _is_deep(now: Activity, waiting: Series) -> bool:
    """Against the batch, or all the time that could be seen."""
    running = now.running
    batch = running.mean if running is not None else 0.0
    return waiting.mean >= _DEEP * batch or len(waiting.readings) == len(
        now.backlog.readings if now.backlog is not None else ()
    )


def _weigh_preemptions(now: Activity, argument: Argument) -> bool:
    """True where preemptions are the story."""
    thrown = preempting(now)
    if thrown is None:
        if now.is_full:
            argument.need("preemptions or retractions over time")
        return False
    if thrown.is_costly:
        return True
    argument.against(f"cache.thrash: few preemptions ({thrown.says}; {thrown.cost or 'no more'})")
    return False


def _ask(
    argument: Argument, now: Activity, *, limit: str, lasts: bool, moving: bool | None
) -> None:
    if not limit:
        if now.has_room:
            argument.against("the KV cache has room, and no limit is known that keeps requests out")
        argument.need("the seat limit (max-num-seqs, max-running-requests, slots)")
        if now.kv is None:
            argument.need("KV cache usage")
    if not lasts:
        argument.need("the queue over a minute, and arrivals against answers")
    if moving is None:
        argument.need("generated tokens over time")


OVERLOAD = Rule(
    id="queue-overload",
    mechanism=Mechanism.QUEUE_OVERLOAD,
    judge=judge,
    needs=("requests waiting over time", "requests running", "KV cache usage or the seat limit"),
    told_apart="From a blocked scheduler by progress, from thrash by few preemptions for each "
    "answer, from a burst by a queue that stays, from a head-of-line prompt by a batch or cache "
    "that is full.",
    remedy="Admit what fits at once, shed or slow what does not, or add replicas; the engine is "
    "sound.",
    hides="A longer queue or more seats turn waiting into slower tokens and preemptions; more "
    "replicas hide that arrivals grew by retries or by one caller.",
)

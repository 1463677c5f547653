"""A limit that keeps a batch small while others wait, and while cache and device have room."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import is_sustained, late, stretch_while
from controlplane.diagnosis.views.device import IDLE_BELOW, cite_usage
from controlplane.diagnosis.views.figure import Figure, figure_of
from controlplane.diagnosis.views.loads import load_of
from controlplane.diagnosis.views.prompts import longest_prompt, other_prompts
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.words.limits import DEVICE_MEMORY
from dataplane.engine_metrics.signal import Signal

_FREE_CACHE = 0.5
"""Twice the batch would fit."""
_MUCH_FREE_CACHE = 0.3
_HALF = 0.5
_TWICE = 2.0
_MORE = 1.5
"""Times the tokens, with twice as many at once: then the device was not full."""
_LEAST_SECONDS = 14.0
_LEAST_PACE = 1.0
"""Tokens a second for each that runs: slower is no way of working."""
_LEAST_BATCH = 4
_FLAT = 1.25
_BUSY = 0.9
_PROMISED = r"max (new )?tokens|reserv|conservativ|guaranteed|evict policy|scheduler policy"
_LIMIT = (
    r"(max|limit|cap)\b.*\b(in ?flight|active|concurren\w*|parallel|ongoing|batch( size)?|seqs"
    r"|seats|connections|workers)\b|^(num )?(slots|seats)$|\bmax num seqs|max running requests"
    r"|semaphore|pool size|batch size limit"
)
BACKLOG = (
    r"\b(items|rows|prompts|requests|jobs|documents|tasks|backlog|work)\b.*\b(left|remaining"
    r"|pending"
    r"|total|to do|queued|outstanding|waiting)\b|\bheld\b|^backlog|queue (depth|length)"
    r"|dataset size"
)
"""Of work that is there and not sent, or not let in."""


def behind_a_limit(
    argument: Argument, now: Activity, usage: Figure | None, *, is_idle: bool
) -> Verdict | None:
    limit = _limit(now)
    waiting = stretch_while(now.backlog, lambda value: value > 0)
    backlog = told_number(now.window, BACKLOG) if waiting is None else None
    if limit is None or (waiting is None and not (number_of(backlog) or 0) > 0):
        return None
    if now.kv is not None and now.kv.max >= _FREE_CACHE:
        return None
    argument.says(f"as many run as a limit lets in ({limit.says})")
    argument.series(now.running)
    argument.series(waiting, "work waits")
    argument.fact(backlog, "work waits")
    argument.series(now.kv, "the cache would take more")
    if is_idle:
        cite_usage(argument, usage)
    elif usage is not None:
        argument.fact(usage.fact)
    lasts = waiting is None or _lasts(waiting, now, limit.value)
    is_enough = does_more_with_more(argument, now, limit.value) or (
        usage is not None and _is_a_handful(argument, now)
    )
    if is_idle or (lasts and is_enough):
        argument.against("queue.overload: it is the limit that is full, the device has time")
        return argument.verdict(Confidence.LIKELY, detail=limit.says)
    if usage is not None:
        return None
    argument.need("how busy the device is", *(() if now.kv else ("KV cache usage",)))
    return argument.verdict(Confidence.POSSIBLE, detail=limit.says)


def _lasts(waiting: Series, now: Activity, limit: float) -> bool:
    """The queue is no moment: it is deep, or is seen for a while, or what runs beside it is."""
    if len(waiting.readings) > 1:
        return waiting.min >= _DEEP * limit or is_sustained(waiting, _LEAST_SECONDS)
    stands = now.running is not None and now.running.is_constant
    return stands and is_sustained(now.running, _LEAST_SECONDS)


def does_more_with_more(argument: Argument, now: Activity, limit: float) -> bool:
    """Somebody measured a larger batch on it, and it did more in the same time."""
    if now.decode is None:
        return False
    for fact in told_all(now.window, r"tokens|tok\b|throughput|tps"):
        value, load = number_of(fact), load_of(fact)
        if load is None or load < _TWICE * limit or value is None:
            continue
        if value >= _MORE * late(now.decode):
            argument.fact(fact, f"with {number(load)} at once it does more")
            return True
    return False


def _is_a_handful(argument: Argument, now: Activity) -> bool:
    """So few seats that a step is little else than reading the weights, which serves more in the
    same time, beside a cache that would take ten times as many. A device that does nothing else is
    busy all the time, too. So it is asked only where a device is known: a processor computes
    each more as slowly as the ones before."""
    seats, kv, decode = now.seats, now.kv, now.decode
    if seats is None or seats > _HANDFUL or kv is None or kv.max >= _NEARLY_EMPTY:
        return False
    if decode is None or not _keeps_pace(now) or _reads_more_than_it_writes(now):
        return False
    each = late(decode) / max(late(now.running) if now.running else 0.0, 1.0)
    argument.series(decode, f"{number(round(each, 1))} tokens/s for each, in steps of a few")
    argument.against("a device counts as busy while any kernel runs, be the batch ever so small")
    return True


def _reads_more_than_it_writes(now: Activity) -> bool:
    """Then steps are long by prompts, however few run."""
    if now.prefill is None or now.decode is None:
        return False
    return late(now.prefill) >= _MUCH_PREFILL * late(now.decode)


_DEEP = 2.0
"""Batches that wait in each reading: they do not pass between two of them."""
_NEARLY_EMPTY = 0.1
"""Ten times the batch would fit."""


def _limit(now: Activity) -> Figure | None:
    """One that is reached."""
    running = now.running if now.running is not None else now.in_flight
    if running is None:
        return None
    high = max(late(running), running.last.value)
    for fact in told_all(
        now.window, _LIMIT, without=r"tokens|model len|per request|seq len|client"
    ):
        value = number_of(fact)
        if value is not None and value >= 1 and 0.95 * value <= high <= 1.1 * value:
            return figure_of(fact, value)
    seats = now.seats
    if seats is not None and now.has_all_seats_taken:
        return Figure(seats, f"{number(seats)} seats")
    return None


def beside_free_memory(argument: Argument, now: Activity, usage: Figure | None) -> Verdict | None:
    """A handful of seats, all taken, others wait, and much of the device's memory is not used."""
    seats, waiting = now.seats, stretch_while(now.backlog, lambda value: value > 0)
    if seats is None or seats > _HANDFUL or not now.has_all_seats_taken or waiting is None:
        return None
    used = told_number(now.window, r"(gpu|device|card|vram|hbm).*\bused\b|\bused\b.*(gpu|vram)")
    whole = told_number(now.window, DEVICE_MEMORY)
    taken, size = number_of(used), number_of(whole)
    if used is None or whole is None or not taken or not size or taken > _HALF * size:
        return None
    if (usage is not None and usage.value >= _BUSY) or (now.kv is not None and now.is_full):
        return None
    argument.series(now.running, f"of {number(seats)} seats")
    argument.series(waiting, "others wait for a seat")
    argument.fact(used, f"of {whole.raw}: there is room for more seats")
    argument.series(now.decode, "for all")
    argument.fact(told_number(now.window, r"prompt.*tokens"))
    cite_usage(argument, usage)
    argument.against("queue.overload: it is the number of seats that is full, not the device")
    lasts = is_sustained(waiting, _LEAST_SECONDS) and is_unhurried(argument, now)
    confidence = Confidence.LIKELY if lasts else Confidence.POSSIBLE
    argument.need("how busy the device is")
    return argument.verdict(confidence, detail=f"{number(seats)} seats")


_HANDFUL = 4


def behind_reservations(argument: Argument, now: Activity, usage: Figure | None) -> Verdict | None:
    """Seats and blocks are free, what runs makes progress, and yet nobody is let in: the scheduler
    promises room to each request that is never used (its whole max_tokens, or the longest
    context)."""
    running, waiting = now.running, stretch_while(now.waiting, lambda value: value > 0)
    seats, kv = now.seats, now.kv
    if running is None or waiting is None or seats is None or kv is None:
        return None
    stands = stretch_while(running, lambda value: value == running.last.value)
    if stands is None or len(stands.readings) < 2 or running.last.value <= 0:
        return None
    if running.last.value > _HALF * seats or kv.max >= _FREE_CACHE:
        return None
    if waiting.last.value < waiting.first.value * _HALF or not _keeps_pace(now):
        return None
    if _some_are_much_longer(now):
        return None
    argument.series(running, f"of {number(seats)} seats, and no more are let in")
    argument.series(waiting, "work waits")
    argument.series(kv, "most of the cache is free")
    argument.series(now.decode, "what runs makes progress")
    promised = _cite_promises(argument, now, running)
    cite_usage(argument, usage)
    for slow in slowdowns(now.window)[:1]:
        argument.says(slow.says)
    argument.against("queue.overload: neither seats nor blocks are used up")
    argument.against("queue.blocked: what runs makes progress at its usual pace")
    detail = "room is promised that is never used"
    is_seen = promised or len(stands.readings) > 2
    if is_seen and (is_unhurried(argument, now) or _is_idle(usage)):
        remedy = "Set max_tokens to what answers need, or let the scheduler promise less."
        return argument.verdict(Confidence.LIKELY, detail=detail, remedy=remedy)
    argument.need("max_tokens of the requests", "how the scheduler reserves room for answers")
    return argument.verdict(Confidence.POSSIBLE, detail=detail)


def _cite_promises(argument: Argument, now: Activity, running: Series) -> bool:
    """How much each may have of the cache, and what was told of that; whether anything was."""
    if now.capacity is not None:
        each = now.capacity / running.last.value
        argument.says(
            f"{number(now.capacity)} / {running.last.raw} = {number(round(each))} tokens are "
            "promised to each, far more than they hold"
        )
    told = told_all(now.window, _PROMISED)
    for fact in told:
        argument.fact(fact)
    return bool(told)


def at_a_constant_batch(argument: Argument, now: Activity, usage: Figure | None) -> Verdict | None:
    """Exactly as many run in each reading, others wait beside a cache that is nearly empty, and the
    queue does not grow: a limit that nobody named."""
    running, waiting, kv = now.running, now.waiting, now.kv
    if running is None or waiting is None or kv is None or now.seats is not None:
        return None
    if not running.is_constant or len(running.readings) < 3 or running.mean < _LEAST_BATCH:
        return None
    is_flat = waiting.min > 0 and waiting.max <= _FLAT * waiting.min
    if not is_flat or not is_sustained(waiting, 2 * _LEAST_SECONDS) or kv.max >= _MUCH_FREE_CACHE:
        return None
    if not _keeps_pace(now) or (usage is not None and usage.value >= _BUSY):
        return None
    argument.series(running, "the same in each reading")
    argument.series(waiting, "work waits, and does not get more")
    argument.series(kv, "the cache would take many more")
    argument.series(now.decode)
    for signal in (Signal.CACHED_PROMPT_TOKENS, Signal.COMPUTED_PROMPT_TOKENS, Signal.FINISHED):
        argument.series(now.window.find(signal))
    argument.series(now.preemptions)
    cite_usage(argument, usage)
    argument.against("queue.overload: the queue does not grow, and the cache is nearly empty")
    argument.need("the seat limit that the engine came up with", "how busy the device is")
    sure = is_unhurried(argument, now) or _is_idle(usage)
    confidence = Confidence.LIKELY if sure else Confidence.POSSIBLE
    return argument.verdict(confidence, detail=f"a limit at {running.last.raw}")


def _keeps_pace(now: Activity) -> bool:
    """At a token a second and more for each that runs."""
    if now.decode is None or now.running is None:
        return False
    return late(now.decode) >= _LEAST_PACE * now.running.last.value


def is_unhurried(argument: Argument, now: Activity) -> bool:
    """Each that runs gets its tokens at a pace at which a step mostly reads the weights: twice as
    many would be served by the same reads. A device at its limit makes its steps longer."""
    if now.decode is None or now.running is None or late(now.running) <= 0:
        return False
    if _reads_more_than_it_writes(now):
        return False
    pace = late(now.decode) / late(now.running)
    if pace < _UNHURRIED:
        return False
    argument.says(f"each gets {number(round(pace, 1))} tokens/s: the device is not at its limit")
    return True


_MUCH_PREFILL = 4.0
"""Times the decoded tokens: then steps are long by prompts, whatever each stream gets."""
_UNHURRIED = 15.0
"""Tokens a second for each, which is a step of 70 ms: what is bound by computing takes longer."""


def _is_idle(usage: Figure | None) -> bool:
    return usage is not None and usage.value < IDLE_BELOW


def _some_are_much_longer(now: Activity) -> bool:
    """Then it is the long one that holds the others up."""
    one, others = longest_prompt(now.window), other_prompts(now.window)
    return one is not None and others is not None and one.value >= 8 * others.value

"""Requests became longer, so that fewer fit at once; nothing is computed twice."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache.growth import (
    GROWN,
    LEAST_SECONDS,
    NEARLY_FULL,
    Growth,
    growth_of,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import course_of, early, late
from controlplane.diagnosis.views.draining import drain_of
from controlplane.diagnosis.views.preempting import Preempting, preempting
from controlplane.diagnosis.views.slot_pool import outgrown_pool
from controlplane.diagnosis.views.told import number_of, says_no, told, told_number, value_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_FEWER = 0.8
"""Of those that ran before."""
_OWN_SHARE = 0.4
_BRIM = 0.95
_FROM = 0.85
"""Of what it is at the end: it rose by more than a batch of that size varies."""
_HARDLY = 50.0
"""Tokens of prefill a second."""


def judge(window: Window) -> Verdict | None:
    """LIKELY where requests are half as long again, fewer run, the cache is full and nothing is
    thrown out."""
    now = activity_of(window)
    direct = _outgrew_its_pool(window) or _fills_by_what_runs(now) or _shrinks_while_full(now)
    if direct is not None:
        return direct
    growth = growth_of(now)
    if growth is None or growth.factor < GROWN or _is_of_others(now, growth):
        return None
    argument = Argument(window)
    argument.says(growth.says)
    outgrown = _outgrows(argument, now, growth)
    is_fuller = outgrown or (
        now.kv is not None and max(late(now.kv), now.kv.last.value) >= NEARLY_FULL
    )
    argument.series(now.kv, "the cache is full" if is_fuller and not outgrown else "")
    fits_fewer = _fits_fewer(argument, now) or outgrown
    argument.series(now.waiting)
    for change in window.changes:
        argument.says(f"change: {change.what}")
    _weigh_thrash(argument, preempting(now))
    argument.against("queue.overload: as many arrive as before, and each takes more room")
    if is_fuller and fits_fewer and (growth.is_measured or drain_of(now) is None):
        return argument.verdict(Confidence.LIKELY)
    if now.kv is None:
        argument.need("KV cache usage")
    argument.need("prompt and output lengths over time", "requests running over time")
    return argument.verdict(Confidence.POSSIBLE)


def _is_of_others(now: Activity, growth: Growth) -> bool:
    """Requests are thrown out, or blocks are held by nobody, or as many run and write more than
    stays."""
    thrown = preempting(now)
    if (thrown is not None and thrown.is_costly) or _is_held_by_nobody(now):
        return True
    return not growth.is_of_requests and _runs_as_many(now) and _write_more_than_stays(now)


def _weigh_thrash(argument: Argument, thrown: Preempting | None) -> None:
    if thrown is None:
        argument.need("preemptions or retractions over time")
        return
    argument.against(f"cache.thrash: nothing is thrown out at a rate that costs ({thrown.says})")


def _outgrew_its_pool(window: Window) -> Verdict | None:
    """Slots that share one pool were let in while they were short, and filled it."""
    outgrown = outgrown_pool(window)
    if outgrown is None:
        return None
    argument = Argument(window)
    for sentence in outgrown.says:
        argument.says(sentence)
    argument.against("oom.decode_growth: the pool of contexts is full, and not the device")
    argument.against("queue.never_fits: each was let in, and fitted for long")
    remedy = "A pool of slots times context, a bound on each, or fewer slots."
    return argument.verdict(Confidence.CERTAIN, detail="slots that share one pool", remedy=remedy)


def _shrinks_while_full(now: Activity) -> Verdict | None:
    """The cache is full all the time and fewer and fewer fit, though nothing is read again."""
    kv, running, waiting = now.kv, now.running, now.waiting
    if kv is None or running is None or waiting is None or len(running.readings) < 3:
        return None
    is_shrinking = running.last.value <= _A_FEW_LESS * running.first.value
    if kv.min < _BRIM or not is_shrinking or waiting.last.value <= waiting.first.value:
        return None
    again = told(now.window, r"recomput|computed (again|twice)|preempt|retract")
    if now.prefill is not None and now.prefill.max > _HARDLY:
        return None
    if not says_no(again) and not (again is None and _reads_nothing_and_grew(now)):
        return None
    argument = Argument(now.window)
    argument.series(kv, "full all the time")
    argument.series(running, "fewer and fewer fit")
    argument.series(waiting)
    argument.series(now.decode)
    argument.series(now.window.find(Signal.PROMPT_RATE), "nothing is read, and so nothing again")
    for contrast in contrasts(now.window, r"context|length|tokens"):
        argument.says(contrast.says)
    argument.fact(again)
    argument.against("cache.thrash: nothing is computed twice")
    argument.against("queue.burst_draining: the queue gets longer, by those that left the batch")
    return argument.verdict(Confidence.LIKELY, detail="contexts that go on growing")


_A_FEW_LESS = 0.93


def _reads_nothing_and_grew(now: Activity) -> bool:
    """No prompt is read at any time, so none is read again; and contexts are known to be longer."""
    lengths = contrasts(now.window, r"context|length|sequence")
    grew = any(each.base_value > 0 and each.factor >= _A_BIT_LONGER for each in lengths)
    read = now.prefill or course_of(now.window, Signal.PROMPT_RATE, _READ)
    return read is not None and len(read.readings) > 1 and read.max <= _HARDLY and grew


_READ = r"^(prompt|prefill|input) (tokens|throughput)( per s)?$"


_A_BIT_LONGER = 1.1


def _fills_by_what_runs(now: Activity) -> Verdict | None:
    """As many run as before, hardly a prompt comes, and what they write fills the cache."""
    kv, running = now.kv, now.running
    if kv is None or running is None or not _fills_up(kv):
        return None
    if running.last.value > running.first.value or running.last.value <= 0:
        return None
    thrown = preempting(now)
    waits = 0.0 if now.backlog is None else now.backlog.max
    came = 0.0 if now.prefill is None else now.prefill.max
    if (thrown is not None and thrown.is_costly) or waits > running.last.value or came > _HARDLY:
        return None
    if _write_more_than_stays(now):
        return None
    argument = Argument(now.window)
    argument.series(kv, "with no more in the batch")
    argument.series(running)
    argument.series(now.decode, "they simply go on writing")
    argument.series(now.waiting)
    if now.capacity is not None:
        each = number(round(now.capacity * kv.last.value / running.last.value))
        argument.says(f"about {each} tokens in each context, of {number(now.capacity)}")
    if thrown is not None:
        argument.against(f"cache.thrash: {thrown.says}")
    argument.against("release.leak: usage belongs to what runs and grows at the pace of its tokens")
    is_felt = waits > 0 or running.last.value < running.first.value
    is_felt = is_felt or (thrown is not None and thrown.count > 0) or _leaves_seats_empty(now)
    if not is_felt:
        argument.need("whether anybody waits or is thrown out once the cache is full")
        return argument.verdict(Confidence.POSSIBLE, detail="outputs that go on")
    return argument.verdict(Confidence.LIKELY, detail="outputs that go on")


def _fills_up(usage: Series) -> bool:
    """To the brim, from clearly below it, in more than a moment."""
    if len(usage.readings) < 2 or usage.span_seconds < LEAST_SECONDS:
        return False
    return usage.last.value >= _BRIM and usage.first.value <= _FROM * usage.last.value


def _leaves_seats_empty(now: Activity) -> bool:
    """Half of the seats could never be taken beside such contexts."""
    seats = now.seats
    return seats is not None and now.running is not None and 2 * now.running.last.value <= seats


def _runs_as_many(now: Activity) -> bool:
    return now.running is not None and now.running.last.value >= now.running.first.value


def _write_more_than_stays(now: Activity) -> bool:
    """Many times the tokens that the cache took on were written meanwhile: requests ended and
    others came, and what stays is not theirs."""
    kv, held = now.kv, now.window.find(Signal.CONTEXT_TOKENS)
    if now.decode is None or kv is None:
        return False
    if held is not None and len(held.readings) > 1:
        taken = held.last.value - held.first.value
    elif now.capacity is not None:
        taken = now.capacity * (kv.last.value - kv.first.value)
    else:
        return False
    return now.decode.mean * kv.span_seconds > _MANY_TIMES * taken


_MANY_TIMES = 2.0


def _outgrows(argument: Argument, now: Activity, growth: Growth) -> bool:
    """As many conversations as before, which fitted all tiers of the cache and do not any more."""
    many = told_number(now.window, _CONVERSATIONS)
    count = number_of(many)
    room = told_number(now.window, _ALL_TIERS)
    capacity = number_of(room) or now.capacity
    if many is None or not count or not capacity:
        return False
    if not count * growth.before <= capacity < count * growth.now:
        return False
    argument.fact(many, f"{number(count * growth.now)} tokens in all, once they are so long")
    if room is not None:
        argument.fact(room, f"{number(count * growth.before)} still fitted")
    else:
        argument.says(f"{number(capacity)} tokens in the cache")
    for contrast in contrasts(now.window, r"hit|ttft|first token|evict"):
        argument.says(contrast.says)
    return True


_CONVERSATIONS = (
    r"^(active |open |num |concurrent )?(clients?|sessions?|conversations?|users?|agents?|chats?"
    r"|callers?)( active| open)?$"
)
_ALL_TIERS = r"(?=.*\b(all|tiers?|total|together|combined|sum)\b)(?=.*\b(tokens|capacity)\b)"


def _is_held_by_nobody(now: Activity) -> bool:
    """What runs explains only a small part of what the cache holds."""
    each = value_of(
        now.window, r"(mean|average|avg|typical|p50)\b.*\bcontext|context.*\b(mean|each)\b"
    )
    held = now.window.find(Signal.CONTEXT_TOKENS)
    if each is None or held is None or now.running is None:
        return False
    return each * now.running.last.value < _OWN_SHARE * held.last.value


def _fits_fewer(argument: Argument, now: Activity) -> bool:
    running = now.running
    if running is not None and len(running.readings) > 1:
        argument.series(running)
        if late(running) <= _FEWER * early(running):
            return True
    for contrast in contrasts(now.window, r"running|concurren|fits?|batch size|seats used"):
        if contrast.value <= _FEWER * contrast.base_value:
            argument.says(f"{contrast.says}: fewer fit at once")
            return True
    return running is not None and now.waiting is not None and now.waiting.last.value > 0


GROWN_CONTEXTS = Rule(
    id="cache-grown-contexts",
    mechanism=Mechanism.CACHE_GROWN_CONTEXTS,
    judge=judge,
    needs=(
        "prompt and output lengths over time",
        "requests running over time",
        "KV cache usage",
        "preemptions over time",
    ),
    told_apart="From thrash by few preemptions, from overload by requests that are longer and not "
    "more, from a leak by usage that belongs to what runs.",
    remedy="Bound contexts (history, retrieved text, max_tokens), give long ones replicas of their "
    "own, or a larger or smaller-typed cache.",
    hides="More cache hides what made the requests longer, and it goes on growing.",
    explains=frozenset({Mechanism.QUEUE_OVERLOAD, Mechanism.CACHE_PREFIX_LOSS}),
)

"""Requests became longer, so that fewer fit at once; nothing is computed twice."""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import HistogramReading, HistogramSeries
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import FULL, Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.course_parts import rates
from controlplane.diagnosis.views.draining import drain_of
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.told import number_of, told_number, value_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_GROWN = 1.5
"""Half as long again: fits two where three fitted."""
_FEWER = 0.8
"""Of those that ran before."""
_LEAST_SECONDS = 60.0
"""Shorter, and it is one batch that gets older."""
_OTHER_REQUESTS_SECONDS = 600.0
"""After which it is not the same requests that got older."""
_OWN_SHARE = 0.4
_BRIM = 0.95
_FROM = 0.85
"""Of what it is at the end: it rose by more than a batch of that size varies."""
_HARDLY = 50.0
"""Tokens of prefill a second."""
_NEARLY_FULL = 0.75
_LENGTHS = (
    r"(?=.*\b(prompt|context|input|output|request|conversation|history)\w*\b)"
    r"(?=.*\b(tokens?|len|length)\b)(?!.*\b(max|limit|longest|largest|batched|per s|chunk)\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Tokens of a request, before and now."""

    before: float
    now: float
    says: str
    """How it is known."""
    is_measured: bool = True
    """False where it is worked out from the cache and the batch."""

    @property
    def factor(self) -> float:
        """How many times as long."""
        return self.now / self.before


def judge(window: Window) -> Verdict | None:
    """LIKELY where requests are half as long again, fewer run, the cache is full and nothing is
    thrown out."""
    now = activity_of(window)
    filling = _fills_by_what_runs(now)
    if filling is not None:
        return filling
    growth = _growth(now)
    if growth is None or growth.factor < _GROWN:
        return None
    thrown = preempting(now)
    if (thrown is not None and thrown.is_costly) or _is_held_by_nobody(now):
        return None
    argument = Argument(window)
    argument.says(growth.says)
    outgrown = _outgrows(argument, now, growth)
    is_fuller = outgrown or (
        now.kv is not None and max(late(now.kv), now.kv.last.value) >= _NEARLY_FULL
    )
    argument.series(now.kv, "the cache is full" if is_fuller and not outgrown else "")
    fits_fewer = _fits_fewer(argument, now) or outgrown
    argument.series(now.waiting)
    for change in window.changes:
        argument.says(f"change: {change.what}")
    if thrown is not None:
        argument.against(
            f"cache.thrash: nothing is thrown out at a rate that costs ({thrown.says})"
        )
    else:
        argument.need("preemptions or retractions over time")
    argument.against("queue.overload: as many arrive as before, and each takes more room")
    if is_fuller and fits_fewer and (growth.is_measured or drain_of(now) is None):
        return argument.verdict(Confidence.LIKELY)
    if now.kv is None:
        argument.need("KV cache usage")
    argument.need("prompt and output lengths over time", "requests running over time")
    return argument.verdict(Confidence.POSSIBLE)


def _fills_by_what_runs(now: Activity) -> Verdict | None:
    """As many run as before, hardly a prompt comes, and what they write fills the cache."""
    kv, running = now.kv, now.running
    if kv is None or running is None or len(kv.readings) < 2 or kv.span_seconds < _LEAST_SECONDS:
        return None
    is_filling = kv.last.value >= _BRIM and kv.first.value <= _FROM * kv.last.value
    if not is_filling or running.last.value > running.first.value or running.last.value <= 0:
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
    capacity, each = now.capacity, None
    if capacity is not None:
        each = capacity * kv.last.value / running.last.value
        argument.says(f"about {number(round(each))} tokens in each context, of {number(capacity)}")
    if thrown is not None:
        argument.against(f"cache.thrash: {thrown.says}")
    argument.against("release.leak: usage belongs to what runs and grows at the pace of its tokens")
    return argument.verdict(Confidence.LIKELY, detail="outputs that go on")


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


def _growth(now: Activity) -> Growth | None:
    for find in (_by_told, _by_histogram, _by_counters, _by_contexts, _by_cache):
        growth = find(now)
        if growth is not None and growth.factor >= _GROWN:
            return growth
    return None


def _by_told(now: Activity) -> Growth | None:
    found = [each for each in contrasts(now.window, _LENGTHS) if each.base_value > 0]
    most = max(found, key=lambda contrast: contrast.factor, default=None)
    if most is None or most.factor < _GROWN:
        return None
    return Growth(before=most.base_value, now=most.value, says=most.says)


def _by_histogram(now: Activity) -> Growth | None:
    """Prompts, or prompts and outputs, of the second half of the window against the first; or of
    the window against all before."""
    for signal in (Signal.PROMPT_LENGTH, Signal.OUTPUT_LENGTH):
        histogram = now.window.find_histogram(signal)
        means = None if histogram is None else _two_means(histogram)
        if histogram is None or means is None or means[1] < _GROWN * means[0]:
            continue
        return Growth(
            before=means[0],
            now=means[1],
            says=f"{histogram.origin.name}: mean {number(round(means[0]))} -> "
            f"{number(round(means[1]))} tokens",
        )
    return None


def _two_means(histogram: HistogramSeries) -> tuple[float, float] | None:
    readings = histogram.readings
    if len(readings) < 2:
        return None
    if len(readings) == 2:
        before, after = _mean(None, readings[0]), _mean(readings[0], readings[1])
    else:
        middle = readings[len(readings) // 2]
        before, after = _mean(readings[0], middle), _mean(middle, readings[-1])
    return None if not before or after is None else (before, after)


def _mean(start: HistogramReading | None, end: HistogramReading) -> float | None:
    count = end.count - (0.0 if start is None else start.count)
    total = end.sum - (0.0 if start is None else start.sum)
    return total / count if count > 0 else None


def _by_counters(now: Activity) -> Growth | None:
    """Tokens of each answer: both counters, in the first and in the last third."""
    made = rates(now.window.find(Signal.GENERATION_TOKENS), now.window)
    ended = rates(now.window.find(Signal.FINISHED), now.window)
    ended = ended or rates(now.window.find(Signal.GATEWAY_ENDED), now.window)
    if made is None or ended is None or ended.before <= 0 or ended.after <= 0:
        return None
    before, after = made.before / ended.before, made.after / ended.after
    if before <= 0:
        return None
    return Growth(
        before=before,
        now=after,
        says=f"tokens for each answer: {number(round(before))} -> {number(round(after))}",
    )


def _by_contexts(now: Activity) -> Growth | None:
    """Tokens in the contexts of the batch, for each that runs."""
    contexts, running = now.window.find(Signal.CONTEXT_TOKENS), now.running
    if contexts is None or running is None or len(contexts.readings) < 2:
        return None
    if contexts.span_seconds < _LEAST_SECONDS:
        return None
    before, after = early(contexts) / max(early(running), 1), late(contexts) / max(late(running), 1)
    if before <= 0:
        return None
    return Growth(
        before=before,
        now=after,
        says=f"{contexts.origin.name} for each running: {number(round(before))} -> "
        f"{number(round(after))}",
    )


def _by_cache(now: Activity) -> Growth | None:
    """Where the cache is full at both ends, fewer in it are longer."""
    kv, running = now.kv, now.running
    if kv is None or running is None or len(kv.readings) < 2 or kv.span_seconds < _LEAST_SECONDS:
        return None
    if late(running) <= 0 or early(running) <= 0 or late(kv) < _NEARLY_FULL * FULL:
        return None
    if early(kv) < _NEARLY_FULL * FULL and kv.span_seconds < _OTHER_REQUESTS_SECONDS:
        return None
    before, after = early(kv) / early(running), late(kv) / late(running)
    return Growth(
        before=before,
        now=after,
        says=f"{running.origin.name} {running.first.raw} -> {running.last.raw} in the same cache "
        f"({kv.origin.name} {kv.first.raw} -> {kv.last.raw})",
        is_measured=False,
    )


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

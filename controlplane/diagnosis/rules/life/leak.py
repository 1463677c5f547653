"""release.leak: seats, blocks or memory are held by what nobody waits for."""

from controlplane.diagnosis.citing import course, moved, number, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.held_memory import grown_memory
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import course_of, from_on, stretch_while
from controlplane.diagnosis.views.moving import moves_since
from controlplane.diagnosis.views.told import (
    number_of,
    says_no,
    share_of,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 30.0
"""A cancel reaches a scheduler within a step or two; transfers between workers take seconds."""
_LEAST_EXCESS = 0.2
"""Of what is in flight: gauges and gateway are read at different moments."""
_LEAST_HELD = 0.02
"""Of the KV cache: less may be one block that a sentinel request or padding keeps."""
_TOKENS = (
    r"tokens? (decoded|generated|predicted|produced)|(generated|decoded|output) tokens|n decoded"
)
_TOKENS_LATELY = r"tokens?\b.*\b(last|past|lately)\b|\b(last|past)\b.*\btokens?\b"
_BUSY = 0.5
"""Of the device's time: it computes, and not only now and then."""


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    truth = truth_of(now)
    argument = Argument(window)
    for find in (
        _said_by_engine,
        _seats,
        _blocks,
        _idle_rounds,
        _beyond_contexts,
        _told_blocks,
        _told_free,
    ):
        confidence = find(argument, now, truth)
        if confidence is not None:
            _weigh(argument, now)
            return argument.verdict(confidence, detail=_DETAILS[find.__name__])
    return grown_memory(now)


_DETAILS = {
    "_said_by_engine": "the engine's own check",
    "_seats": "seats",
    "_blocks": "KV blocks",
    "_idle_rounds": "KV blocks",
    "_beyond_contexts": "KV blocks",
    "_told_blocks": "blocks",
    "_told_free": "blocks",
}


def _said_by_engine(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Its own check of the pool, our count of what was not released, or output for nobody."""
    window = now.window
    failed = window.events_of(LogKind.MEMORY_LEAK)
    leaked = window.find(Signal.LEAKED)
    orphans = window.events_of(LogKind.OUTPUT_WITHOUT_OWNER)
    if orphans:
        names = [event.words.get("request_id", "") for event in orphans]
        argument.says(
            f"{len(orphans)} lines of output for requests that nobody has any more "
            f"({', '.join(dict.fromkeys(filter(None, names)))}): {orphans[-1].line.strip()[:160]}"
        )
    if failed:
        argument.says(f"the engine's check of its own pool fails: {failed[-1].line.strip()[:200]}")
        return Confidence.CERTAIN
    if leaked is not None and (leaked.increase or 0) > 0:
        argument.says(f"{moved(leaked)}: not released within the bound")
        return Confidence.CERTAIN
    return None


def _seats(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The engine has more in its batch and queue than anybody waits for, and is alive."""
    if truth.in_flight is None or now.running is None:
        return None
    held = _held(now, truth.in_flight)
    wanted = truth.in_flight.last.value
    if held is None or held.last.value - wanted < (_LEAST_EXCESS * wanted or 1):
        return None
    works = _works(now, held)
    grows = held.change > 0
    if not works and not grows:
        return None
    argument.series(now.running, "in the batch")
    if now.waiting is not None and now.waiting.last.value:
        argument.series(now.waiting, "in the queue")
    for sentence in truth.says:
        argument.says(f"{sentence}: {number(held.last.value - wanted)} more than anybody waits for")
    for sentence in works:
        argument.says(sentence)
    unfinished = _unfinished(argument, now, held)
    gone = _gone(argument, now)
    has_orphans = bool(now.window.events_of(LogKind.OUTPUT_WITHOUT_OWNER))
    is_proven = has_orphans or gone or (unfinished and not wanted)
    if held.span_seconds < _LEAST_SECONDS and not has_orphans:
        argument.need("the same figures a minute later")
        return Confidence.POSSIBLE
    if wanted and not is_proven:
        argument.need("callers that do not pass the gateway", "requests whose callers left")
        return Confidence.POSSIBLE
    return Confidence.CERTAIN if is_proven else Confidence.LIKELY


def _held(now: Activity, in_flight: Series) -> Series | None:
    """Batch and queue together, since when there was more than is wanted now."""
    running, waiting = now.running, now.waiting
    if running is None:
        return None
    readings = []
    for reading in running.readings:
        queued = None if waiting is None else waiting.at(reading.at)
        value = reading.value + (0.0 if queued is None else queued.value)
        readings.append(Reading(reading.at, value, number(value)))
    both = Series(signal=running.signal, origin=running.origin, readings=tuple(readings))
    return stretch_while(both, lambda value: value > in_flight.last.value)


def _works(now: Activity, running: Series) -> list[str]:
    """That the batch is computed: gauges that are merely frozen show none of it."""
    found = []
    tokens = from_on(now.window.find(Signal.GENERATION_TOKENS), running.first.at)
    counted = None if tokens is None else tokens.increase
    if tokens is not None and counted:
        found.append(f"{moved(tokens)}: it is computed")
    elif counted is None and now.decode is not None and _is_live(now.decode):
        found.append(f"{course(now.decode)}: it is computed")
    told_tokens = course_of(now.window, Signal.GENERATION_TOKENS, _TOKENS)
    if tokens is None and told_tokens is not None and (told_tokens.increase or 0) > 0:
        found.append(f"{moved(told_tokens)}: it is computed")
    lately = told_number(now.window, _TOKENS_LATELY)
    if tokens is None and (number_of(lately) or 0.0) > 0 and lately is not None:
        found.append(f"{lately.key} {lately.raw}: it is computed")
    steps = from_on(now.window.find(Signal.STEPS), running.first.at)
    if steps is not None and (steps.increase or 0) > 0:
        found.append(f"{moved(steps)}: it is computed")
    busy = told_number(now.window, r"(gpu|device|accelerator) (util\w*|busy|usage)")
    share = share_of(busy)
    if busy is not None and share is not None and share >= _BUSY:
        found.append(f"{busy.key} {busy.raw}")
    return found


def _is_live(rate: Series) -> bool:
    """A speed that is read again and again and is the same to the digit may be an old one."""
    return rate.last.value > 0 and not rate.is_constant


def _unfinished(argument: Argument, now: Activity, running: Series) -> bool:
    """Nothing ended meanwhile."""
    for signal in (Signal.FINISHED, Signal.RECEIVED, Signal.ABORTED):
        series = from_on(now.window.find(signal), running.first.at)
        if series is not None and len(series.readings) > 1:
            argument.says(stands(series) if series.is_constant else moved(series))
    finished = now.window.find(Signal.FINISHED) or now.window.find(Signal.RECEIVED)
    return finished is not None and finished.is_constant


def _gone(argument: Argument, now: Activity) -> bool:
    """Callers are known to have left before."""
    for which in told_all(now.window, r"queued (rids?|ids?)|orphan|zombie|owner"):
        argument.fact(which)
    fact = told(
        now.window,
        r"disconnect|abandon|cancel|abort|gave up|gone|timed out|timeouts|client left|ctrl",
        without=r"^(finished|completed|answered|done)\b",
    )
    left = now.window.events_of(LogKind.CLIENT_GONE)
    if left:
        argument.says(f"{len(left)} callers left: {left[-1].line.strip()[:160]}")
    value = number_of(fact)
    if fact is not None and (value is None or value > 0):
        argument.says(
            ", ".join(f"{each.key} {each.raw}" for each in now.window.facts if each.key == fact.key)
        )
        return True
    return bool(left)


def _blocks(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The KV cache counts as held by active requests, while nothing runs."""
    kv = stretch_while(now.kv, lambda value: value >= _LEAST_HELD)
    idle = stretch_while(now.running, lambda value: value == 0)
    if kv is None or idle is None or truth.is_asleep or _is_held_by_waiting(now, truth):
        return None
    start = max(kv.first.at, idle.first.at)
    held = from_on(kv, start)
    if held is None or held.span_seconds < _LEAST_SECONDS or held.last.value < held.first.value:
        return None
    argument.series(idle, "nothing runs")
    argument.series(held, "and the cache stays held")
    for sentence in truth.says:
        argument.says(sentence)
    gone = _gone(argument, now)
    waiting = now.waiting.last.value if now.waiting is not None else 0.0
    if waiting:
        argument.series(now.waiting, "room is missing for these")
    if now.window.find(Signal.KV_EVICTABLE) is not None:
        argument.series(now.window.find(Signal.KV_EVICTABLE), "cached and free to go")
    if truth.in_flight is not None and truth.in_flight.last.value <= waiting:
        if moves_since(now, start) or truth.is_answered or held.change > 0:
            return (
                Confidence.CERTAIN if held.change > 0 and truth.is_answered else Confidence.LIKELY
            )
        if gone and waiting and not now.window.find(Signal.DEFERRED):
            return Confidence.LIKELY
        argument.need("a one-token probe, and the usage after it")
        return Confidence.POSSIBLE
    argument.need(*truth.needs, "the usage after a step has run")
    return Confidence.POSSIBLE


_HELD_BY_WAITING = (
    r"\b(waiting|parked|pending|deferred|suspended)\b.*\b(remote|transfers?|loads?|kv)\b|"
    r"\b(held|kept|taken) by\b.*\b(waiting|queued|parked|pending|deferred)\b"
)


def _is_held_by_waiting(now: Activity, truth: Truth) -> bool:
    """Requests that somebody waits for were given their blocks, and were then put aside."""
    fact = told_number(now.window, _HELD_BY_WAITING)
    return bool(truth.is_wanted and (number_of(fact) or 0.0) > 0)


def _idle_rounds(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Whenever nothing runs the cache is held as before, and work has been done in between."""
    engine = now.window.engine
    if now.kv is None or now.running is None or truth.is_wanted is not False:
        return None
    if engine is not None and engine.name in _COUNTS_CACHED:
        return None
    idle = [
        reading
        for reading in now.kv.readings
        if (at := now.running.at(reading.at)) is not None and at.value == 0
    ]
    if len(idle) < 2 or idle[-1].at - idle[0].at < _LEAST_SECONDS:
        return None
    if min(each.value for each in idle) < _HELD_FOR_SURE or idle[-1].value < 0.9 * idle[0].value:
        return None
    if not moves_since(now, idle[0].at):
        return None
    argument.series(now.kv, "as before whenever nothing runs: the gauge is alive")
    argument.series(now.running)
    for sentence in truth.says:
        argument.says(sentence)
    gone = _gone(argument, now)
    for change in now.window.changes:
        argument.says(f"{change.at:g} s: {change.what}")
    return Confidence.CERTAIN if gone else Confidence.LIKELY


_COUNTS_CACHED = frozenset({"trtllm", "tensorrt-llm"})
"""Their usage counts blocks that are merely kept for reuse."""
_HELD_FOR_SURE = 0.1


def _beyond_contexts(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Less and less runs, more and more is held: far beyond what those contexts can be."""
    kv, running = now.kv, now.running
    if kv is None or running is None or len(kv.readings) < 2 or running.first.value <= 0:
        return None
    fewer = running.last.value <= _FEWER * running.first.value
    if not fewer or kv.last.value - kv.first.value < _MORE or running.last.value <= 0:
        return None
    held = now.window.find(Signal.CONTEXT_TOKENS)
    each = told_number(now.window, _LENGTH_OF_ONE, without=r"limit|max|before|longest")
    length = number_of(each)
    tokens = None
    if held is not None and held.last.value > 0:
        tokens = held.last.value
    elif now.capacity is not None:
        tokens = now.capacity * kv.last.value
    argument.series(kv, "more is held")
    argument.series(running, "while less runs")
    gone = _gone(argument, now)
    if tokens is not None and length is not None and each is not None and length >= _A_LENGTH:
        explained = running.last.value * length
        if tokens < _BEYOND * explained:
            return None
        argument.says(
            f"{running.last.raw} running x {each.key} {each.raw} = {number(explained)} of "
            f"{number(tokens)} tokens that are held"
        )
        if gone:
            return Confidence.CERTAIN
    if not gone:
        argument.need("context lengths of what runs", "requests whose callers left")
        return Confidence.POSSIBLE
    return Confidence.LIKELY


_LENGTH_OF_ONE = (
    r"(context|sequence|request)s?( \w+)* (tokens? )?(mean|each|avg|average|p50|median)"
    r"|(mean|avg|average|median) (context|sequence)|tokens (per|a) (request|sequence|context)"
)
_FEWER = 0.5
_MORE = 0.2
_BEYOND = 3.0
_A_LENGTH = 16


def _told_blocks(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Blocks or slots are in use with nothing under way, and more each time that it was looked."""
    held = course_of(
        now.window,
        Signal.KV_BLOCKS_HELD,
        r"(blocks?|pages?|slots?|seats?|handles?|buffers?|adapters?)( \w+)* "
        r"(in use|used|held|allocated|taken|occupied|leaked)",
        without=r"max|limit|total|free|cached|pool|seconds",
    )
    return _rounds(argument, now, truth, held, sign=1.0)


def _told_free(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
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
    if course is None or len(course.readings) < _LEAST_ROUNDS or truth.is_wanted is not False:
        return None
    values = [
        sign * reading.value
        for reading in course.readings
        if truth.in_flight is not None
        and (wanted := truth.in_flight.at(reading.at)) is not None
        and wanted.value == 0
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
    gone = _gone(argument, now)
    is_proven = gone or says_no(off) or value == 0
    return Confidence.CERTAIN if is_proven else Confidence.LIKELY


_LEAST_ROUNDS = 3


def _weigh(argument: Argument, now: Activity) -> None:
    argument.against("telemetry.stale: what the engine shows moves, or was asked after a step")
    argument.against("engine.hung: nobody waits for what it holds")
    if now.waiting is not None and now.waiting.last.value == 0:
        argument.against(f"queue.overload: {now.waiting.origin.name} {now.waiting.last.raw}")


LEAK = Rule(
    id="release-leak",
    mechanism=Mechanism.RELEASE_LEAK,
    judge=_judge,
    needs=(
        "requests running over time",
        "requests in flight at the gateway",
        "KV cache usage while nothing runs",
    ),
    told_apart=(
        "From telemetry.stale by tokens or steps that go on; from engine.hung by nobody waiting; "
        "from a filled prefix cache by blocks that count as held by requests."
    ),
    remedy=(
        "An abort has to reach the scheduler and the transfer (a build with the fix); restart the "
        "replica for now, since aborting once more does nothing."
    ),
    hides=(
        "A restart frees what was held and with it the proof of which requests held it; a timeout "
        "for every request hides the leak and cuts long answers."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BLOCKED,
            Mechanism.CACHE_THRASH,
            Mechanism.CACHE_GROWN_CONTEXTS,
            Mechanism.BATCH_UNDERFILLED,
            # What is held for nobody stands still, and the gauge that says so is right.
            Mechanism.TELEMETRY_STALE,
        }
    ),
)

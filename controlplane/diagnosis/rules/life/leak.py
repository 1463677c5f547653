"""release.leak: seats, blocks or memory are held by what nobody waits for."""

from controlplane.diagnosis.citing import course, moved, number, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.held_memory import grown_memory
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import from_on, stretch_while
from controlplane.diagnosis.views.told import number_of, share_of, told, told_number
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window

_LEAST_SECONDS = 30.0
"""A cancel reaches a scheduler within a step or two; transfers between workers take seconds."""
_LEAST_HELD = 0.02
"""Of the KV cache: less may be one block that a sentinel request or padding keeps."""
_BUSY = 0.5
"""Of the device's time: it computes, and not only now and then."""


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    truth = truth_of(now)
    argument = Argument(window)
    for find in (_said_by_engine, _seats, _blocks):
        confidence = find(argument, now, truth)
        if confidence is not None:
            _weigh(argument, now)
            return argument.verdict(confidence, detail=_DETAILS[find.__name__])
    return grown_memory(now)


_DETAILS = {"_said_by_engine": "the engine's own check", "_seats": "seats", "_blocks": "KV blocks"}


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
    """What runs is more than anybody waits for, and is computed."""
    running = stretch_while(now.running, lambda value: value > 0)
    if running is None or truth.in_flight is None:
        return None
    wanted = truth.in_flight.last.value
    lasting = from_on(running, truth.in_flight.last.at) if wanted else running
    floor = running.min
    if floor <= wanted or lasting is None:
        return None
    works = _works(now, running)
    if not works:
        return None
    argument.series(running, "in the batch")
    argument.says(f"{'; '.join(truth.says)}: {number(floor - wanted)} of them nobody waits for")
    for sentence in works:
        argument.says(sentence)
    unfinished = _unfinished(argument, now, running)
    told_gone = _gone(argument, now)
    has_orphans = bool(now.window.events_of(LogKind.OUTPUT_WITHOUT_OWNER))
    lasts = running.span_seconds >= _LEAST_SECONDS
    if not lasts and not has_orphans:
        argument.need("the same figures a minute later")
        return Confidence.POSSIBLE
    if wanted > 0 and not (has_orphans or told_gone):
        argument.need("callers that do not pass the gateway", "requests whose callers left")
        return Confidence.POSSIBLE
    is_proven = has_orphans or told_gone or unfinished
    return Confidence.CERTAIN if lasts and is_proven else Confidence.LIKELY


def _works(now: Activity, running: Series) -> list[str]:
    """That the batch is computed: gauges that are merely frozen show none of it."""
    found = []
    tokens = from_on(now.window.find(Signal.GENERATION_TOKENS), running.first.at)
    if tokens is not None and (tokens.increase or 0) > 0:
        found.append(f"{moved(tokens)}: it is computed")
    elif now.decode is not None and now.decode.last.value > 0:
        found.append(f"{course(now.decode)}: it is computed")
    steps = from_on(now.window.find(Signal.STEPS), running.first.at)
    if steps is not None and (steps.increase or 0) > 0:
        found.append(f"{moved(steps)}: it is computed")
    busy = told_number(now.window, r"(gpu|device|accelerator) (util\w*|busy|usage)")
    share = share_of(busy)
    if busy is not None and share is not None and share >= _BUSY:
        found.append(f"{busy.key} {busy.raw}")
    return found


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
    fact = told(now.window, r"disconnect|abandon|cancel|abort|gave up|client gone|timed out")
    left = now.window.events_of(LogKind.CLIENT_GONE)
    if left:
        argument.says(f"{len(left)} callers left: {left[-1].line.strip()[:160]}")
    value = number_of(fact)
    if fact is not None and (value is None or value > 0):
        argument.fact(fact)
        return True
    return bool(left)


def _blocks(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The KV cache counts as held by active requests, while nothing runs."""
    kv = stretch_while(now.kv, lambda value: value >= _LEAST_HELD)
    idle = stretch_while(now.running, lambda value: value == 0)
    if kv is None or idle is None or truth.is_asleep:
        return None
    start = max(kv.first.at, idle.first.at)
    held = from_on(kv, start)
    if held is None or held.span_seconds < _LEAST_SECONDS or held.last.value < held.first.value:
        return None
    argument.series(idle, "nothing runs")
    argument.series(held, "and the cache stays held")
    for sentence in truth.says:
        argument.says(sentence)
    _gone(argument, now)
    waiting = now.waiting.last.value if now.waiting is not None else 0.0
    if waiting:
        argument.series(now.waiting, "room is missing for these")
    if now.window.find(Signal.KV_EVICTABLE) is not None:
        argument.series(now.window.find(Signal.KV_EVICTABLE), "cached and free to go")
    if truth.in_flight is not None and truth.in_flight.last.value <= waiting:
        if now.moves(start, now.window.end) or truth.is_answered or held.change > 0:
            return (
                Confidence.CERTAIN if held.change > 0 and truth.is_answered else Confidence.LIKELY
            )
        argument.need("a one-token probe, and the usage after it")
        return Confidence.POSSIBLE
    argument.need(*truth.needs, "the usage after a step has run")
    return Confidence.POSSIBLE


def _weigh(argument: Argument, now: Activity) -> None:
    argument.against("telemetry.stale: the engine works, and what it shows moves with it")
    argument.against("engine.hung: steps end")
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
            Mechanism.BATCH_UNDERFILLED,
        }
    ),
)

"""engine.hung: requests are in the batch, somebody waits for them, and no step ends."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import from_on, stretch_while
from controlplane.diagnosis.views.told import told, told_all
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window

_LEAST_SECONDS = 10.0
"""Without a token. A step takes well under a second; a chunk of a long prompt some seconds."""
_LONG_SECONDS = 60.0
"""No chunk of a prefill takes a minute."""
_OWN_WATCHDOG = re.compile(
    r"watchdog timeout|watchdog caught collective|execute_model timed out|scheduler .*stuck|"
    r"deadlock|engine .*(is )?hung",
    re.IGNORECASE,
)
"""Written by a watch over steps alone; a full buffer between processes may be a compilation."""
_STARTING = (
    LogKind.STARTING,
    LogKind.WEIGHTS_LOADING,
    LogKind.WEIGHTS_LOADED,
    LogKind.COMPILED,
    LogKind.PROFILING,
    LogKind.GRAPH_CAPTURE_STARTED,
)


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    truth = truth_of(now)
    notices = _notices(window)
    if truth.is_asleep or truth.is_answered or truth.is_wanted is False:
        return None
    running = stretch_while(now.running, lambda value: value > 0)
    if now.running is not None and running is None:
        return None
    if running is None and (not notices or _is_starting(window, notices)):
        return None
    if now.decode is None and not notices and truth.is_answered is None:
        return None
    start = _still_since(now, running, notices)
    if start is None or now.moves(start, window.end) or _computes_prompts(now):
        return None
    seconds = max(window.end, *_moments(notices), start) - start
    argument = Argument(window)
    _cite(argument, now, running, seconds)
    _cite_notices(argument, notices)
    for sentence in truth.says:
        argument.says(f"{sentence}: somebody waits")
    argument.fact(told(window, r"health", without=r"check interval"), "that process is alive")
    _weigh(argument, now)
    return _conclude(argument, now, truth, notices, start=start, seconds=seconds)


def _notices(window: Window) -> tuple[LogEvent, ...]:
    stated = [
        event
        for event in window.events_of(LogKind.ERROR, LogKind.DIED, LogKind.COLLECTIVE_SLOW)
        if _OWN_WATCHDOG.search(event.line)
    ]
    return (*window.events_of(LogKind.NO_PROGRESS), *stated)


def _is_starting(window: Window, notices: tuple[LogEvent, ...]) -> bool:
    """A process that waits for a compilation says the same."""
    ready = window.last_event(LogKind.READY, LogKind.INITIALIZED)
    starting = window.last_event(*_STARTING)
    if starting is None:
        return False
    return ready is None or ready.index < starting.index or notices[-1].index < ready.index


def _still_since(
    now: Activity, running: Series | None, notices: tuple[LogEvent, ...]
) -> float | None:
    """When the last token came, as far as could be seen; None where they come."""
    if now.decode is not None:
        still = stretch_while(now.decode, lambda value: value == 0)
        if still is None:
            return None
        counted = now.window.find(Signal.GENERATION_TOKENS)
        earlier = None if counted is None else counted.between(float("-inf"), still.first.at)
        is_counted = earlier is not None and len(earlier.readings) > 1
        return earlier.readings[-2].at if earlier is not None and is_counted else still.first.at
    if running is not None:
        return running.first.at
    moments = _moments(notices)
    first = notices[0].fields.get("seconds", 0.0) if notices else 0.0
    return moments[0] - first if moments else now.window.start


def _moments(notices: tuple[LogEvent, ...]) -> list[float]:
    return [event.at for event in notices if event.at is not None]


def _computes_prompts(now: Activity) -> bool:
    return now.prefill is not None and now.prefill.last.value > 0


def _cite(argument: Argument, now: Activity, running: Series | None, seconds: float) -> None:
    argument.series(running, "in the batch")
    tokens = now.window.find(Signal.GENERATION_TOKENS)
    argument.series(tokens if tokens is not None else now.decode, "no token comes")
    argument.series(now.kv)
    argument.series(now.waiting)
    if seconds > 0:
        argument.says(f"nothing moved for {number(seconds)} s")


def _cite_notices(argument: Argument, notices: tuple[LogEvent, ...]) -> None:
    if not notices:
        return
    moments = _moments(notices)
    over = f" over {number(moments[-1] - moments[0])} s" if len(moments) > 1 else ""
    times = f"{len(notices)} times{over}: " if len(notices) > 1 else ""
    argument.says(f"the log says {times}{' '.join(notices[-1].line.split())[:200]}")


def _weigh(argument: Argument, now: Activity) -> None:
    argument.against("telemetry.stale: a request that is in flight waits in vain")
    argument.against("queue.blocked: requests are in the batch, and not only in the queue")
    if now.preemptions is not None and not now.preemptions.increase:
        argument.against("cache.thrash: nothing is preempted")


def _conclude(
    argument: Argument,
    now: Activity,
    truth: Truth,
    notices: tuple[LogEvent, ...],
    *,
    start: float,
    seconds: float,
) -> Verdict:
    is_still = seconds >= _LEAST_SECONDS or _told_still(now.window)
    own = any(_OWN_WATCHDOG.search(event.line) for event in notices)
    unanswered = truth.is_answered is False
    if is_still and own and (truth.is_wanted or unanswered or truth.in_flight is None):
        return argument.verdict(Confidence.CERTAIN if unanswered else Confidence.LIKELY)
    if is_still and truth.is_wanted and (unanswered or notices):
        return argument.verdict(Confidence.LIKELY)
    if is_still and unanswered and (notices or now.running is not None):
        return argument.verdict(Confidence.LIKELY)
    if truth.is_wanted and seconds >= _LONG_SECONDS and _stands(now, start):
        argument.need("a one-token probe", "stacks of the engine's processes")
        return argument.verdict(Confidence.LIKELY)
    argument.need(*truth.needs)
    if seconds < _LEAST_SECONDS:
        argument.need("the same figures a minute later")
    if now.prefill is None:
        argument.need("prompt tokens computed over time")
    return argument.verdict(Confidence.POSSIBLE)


def _told_still(window: Window) -> bool:
    return bool(told_all(window, r"(no|without) (progress|token|answer)|since last token|stalled"))


def _stands(now: Activity, start: float) -> bool:
    """The cache would fill with each chunk of a prefill."""
    kv = from_on(now.kv, start)
    return kv is None or kv.is_constant or len(kv.readings) == 1


HUNG = Rule(
    id="engine-hung",
    mechanism=Mechanism.ENGINE_HUNG,
    judge=_judge,
    needs=(
        "requests running over time",
        "generated tokens over time",
        "requests in flight at the gateway or a one-token probe",
    ),
    told_apart=(
        "From telemetry.stale by a request that is in flight or a probe that gets no answer; from "
        "queue.blocked by requests in the batch; from a long prefill by prompt tokens that move; "
        "from startup.slow by an engine that had served."
    ),
    remedy=(
        "Fence the replica, keep stacks and logs, restart it; probe the path of the data with one "
        "token and not /health alone."
    ),
    hides=(
        "A restart drops what runs and, with the processes' stacks, the only evidence of where the "
        "step stands."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BLOCKED,
            Mechanism.COMMUNICATION_BOUND,
            Mechanism.QUEUE_RETRY_STORM,
        }
    ),
)

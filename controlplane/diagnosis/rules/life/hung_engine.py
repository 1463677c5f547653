"""An engine whose step does not end: requests are in the batch, and somebody waits for them."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.life.silence import (
    LEAST_SECONDS,
    LONG_SECONDS,
    is_of_steps,
    silence,
    unfinished_task,
)
from controlplane.diagnosis.rules.life.token_gaps import is_usual_gap
from controlplane.diagnosis.rules.life.watchdogs import (
    is_starting,
    moments_of,
    notices_of,
    own_watch,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import from_on, stretch_while
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.long_prefill import (
    ONE_PIECE_SECONDS,
    is_in_one_piece,
    longest_prefill,
    may_be_prefill,
)
from controlplane.diagnosis.views.moving import moves_since
from controlplane.diagnosis.views.no_token import cite_no_token
from controlplane.diagnosis.views.told import told, told_all
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_JUST_AFTER = 0.001
_QUEUED = re.compile(r"\b(queued|behind|in the queue|waits for)\b", re.IGNORECASE)
"""A probe that waits with others says nothing of a step."""


def judge_engine(window: Window) -> Verdict | None:
    """LIKELY where somebody waits in vain; CERTAIN where its own watchdog says so too."""
    now = activity_of(window)
    truth = truth_of(now)
    notices = notices_of(window)
    if truth.is_asleep or truth.is_answered or truth.is_wanted is False:
        return None
    running = stretch_while(now.running, lambda value: value > 0)
    is_proven = bool(own_watch(notices)) and truth.is_answered is False and truth.is_wanted
    if running is None and truth.probe is not None and _QUEUED.search(truth.probe.raw):
        return None
    silent, task = silence(window), unfinished_task(window)
    is_lost = running is None and (_is_lost(now, truth) or _ends_in_silence(now, truth, silent))
    if now.running is not None and running is None and not (is_proven or is_lost):
        return None
    if silent is None and truth.is_answered is None and not truth.is_wanted:
        task = ""  # The log of an engine that is well ends in the middle of a request, too.
    seen = bool(notices or task or silent is not None or is_lost)
    if running is None and (not seen or is_starting(window, notices)):
        return None
    if now.decode is None and not seen and truth.is_answered is None:
        return None
    start = _still_since(now, running, notices)
    if silent is not None and (start is None or now.decode is None):
        start = _after_what_came(now, window.end - silent.value)
    if start is None or moves_since(now, start) or _computes_prompts(now):
        return None
    if _goes_round(now, start) and not own_watch(notices):
        return None
    seconds = max(window.end, *moments_of(notices), start) - start
    if not seen and truth.is_answered is None and is_usual_gap(now, start, seconds):
        return None
    argument = Argument(window)
    _cite(argument, now, running, start, seconds)
    _cite_notices(argument, notices)
    if silent is not None:
        argument.says(silent.says)
    if task:
        argument.says(f"launched, and no line of its end: {task}")
    if running is None and _ends_with_prefill(now):
        for line in window.lines_with(r"prefill batch")[-1:]:
            argument.says(f"its newest batch: {' '.join(line.split())[:200]}")
    for sentence in truth.says:
        argument.says(f"{sentence}: somebody waits")
    argument.fact(told(window, r"health", without=r"check interval"), "that process is alive")
    for busy in told_all(window, _BUSY, without=r"mem"):
        argument.fact(busy)
    _weigh(argument, now)
    is_counted = _counts_steps(now, start)
    is_silent = silent is not None and is_of_steps(silent)
    is_known = now.decode is not None or is_silent or bool(task) or is_counted
    watched = notices if is_known else own_watch(notices)
    confidence = _sure(now, truth, watched, start=start, seconds=seconds, is_known=is_known)
    is_seen = is_known or silent is not None or bool(watched) or truth.is_answered is False
    if confidence is Confidence.POSSIBLE and not is_seen:
        return None
    if confidence is Confidence.POSSIBLE:
        _ask(argument, now, truth, seconds)
    return argument.verdict(confidence)


_BUSY = r"\b(gpu|device|npu|sm)\b.*\b(busy|util|utilization|usage|percent|pct)\b"


def _is_lost(now: Activity, truth: Truth) -> bool:
    """Requests that are in flight are in neither of its gauges, and a probe is not answered: the
    step that does not end began before they were set."""
    is_empty = all(
        series is None or series.last.value == 0 for series in (now.running, now.waiting)
    )
    return (
        (is_empty or _ends_with_prefill(now))
        and bool(truth.is_wanted)
        and truth.is_answered is False
    )


def _ends_in_silence(now: Activity, truth: Truth, silent: Figure | None) -> bool:
    """The log goes on and tells of no batch after that prefill, for longer than one takes, and
    callers are known to get nothing as long."""
    batch = now.window.find(Signal.BATCH_COMPUTED_TOKENS)
    if batch is None or silent is None or not is_of_steps(silent) or not truth.is_wanted:
        return False
    since = now.window.end - batch.last.at
    longest = max(LONG_SECONDS, longest_prefill(now))
    return _ends_with_prefill(now) and since >= longest and silent.value >= LONG_SECONDS


def _ends_with_prefill(now: Activity) -> bool:
    """The newest batch that was logged is a prefill: those in it are in neither gauge yet."""
    batch = now.window.find(Signal.BATCH_COMPUTED_TOKENS)
    if batch is None or batch.last.value <= 0 or now.running is None:
        return False
    return batch.last.at >= now.running.last.at


def _still_since(
    now: Activity, running: Series | None, notices: tuple[LogEvent, ...]
) -> float | None:
    """When the last token came, as far as could be seen; None where they come."""
    if now.decode is not None:
        still = stretch_while(now.decode, lambda value: value == 0)
        if still is None:
            last = now.decode.last.at + _JUST_AFTER
            later = [each for each in moments_of(own_watch(notices)) if each > last]
            long_after = [each for each in moments_of(notices) if each > last + LONG_SECONDS]
            return last if later or long_after else None
        counted = now.window.find(Signal.GENERATION_TOKENS)
        earlier = None if counted is None else counted.between(float("-inf"), still.first.at)
        is_counted = earlier is not None and len(earlier.readings) > 1
        return earlier.readings[-2].at if earlier is not None and is_counted else still.first.at
    if running is not None:
        return running.first.at
    moments = moments_of(notices)
    first = notices[0].fields.get("seconds", 0.0) if notices else 0.0
    return moments[0] - first if moments else now.window.start


def _after_what_came(now: Activity, since: float) -> float:
    """A log whose last line tells of work and is followed by nothing: the silence began there."""
    worked = [
        series.last.at
        for series in (now.decode, now.prefill, now.window.find(Signal.BATCH_COMPUTED_TOKENS))
        if series is not None and series.last.value > 0
    ]
    return max([since, *(at + _JUST_AFTER for at in worked)])


def _computes_prompts(now: Activity) -> bool:
    return now.prefill is not None and now.prefill.last.value > 0


def _goes_round(now: Activity, start: float) -> bool:
    """Requests are thrown out and let in again: steps end, though no token comes of them."""
    since = None if now.preemptions is None else from_on(now.preemptions, start)
    return since is not None and (since.increase or 0.0) >= _OFTEN


_OFTEN = 3.0


def _cite(
    argument: Argument, now: Activity, running: Series | None, start: float, seconds: float
) -> None:
    argument.series(running, "in the batch")
    tokens = from_on(now.window.find(Signal.GENERATION_TOKENS), start)
    cite_no_token(argument, tokens if tokens is not None else now.decode)
    argument.series(now.kv)
    argument.series(now.waiting)
    if seconds > 0:
        argument.says(f"nothing moved for {number(seconds)} s")


def _cite_notices(argument: Argument, notices: tuple[LogEvent, ...]) -> None:
    if not notices:
        return
    moments = moments_of(notices)
    over = f" over {number(moments[-1] - moments[0])} s" if len(moments) > 1 else ""
    times = f"{len(notices)} times{over}: " if len(notices) > 1 else ""
    argument.says(f"the log says {times}{' '.join(notices[-1].line.split())[:200]}")


def _weigh(argument: Argument, now: Activity) -> None:
    argument.against("telemetry.stale: a request that is in flight waits in vain")
    argument.against("queue.blocked: requests are in the batch, and not only in the queue")
    if now.preemptions is not None and not now.preemptions.increase:
        argument.against("cache.thrash: nothing is preempted")


def _sure(
    now: Activity,
    truth: Truth,
    notices: tuple[LogEvent, ...],
    *,
    start: float,
    seconds: float,
    is_known: bool,
) -> Confidence:
    """`is_known`: that no token came was seen, and is not merely unknown."""
    unanswered = truth.is_answered is False
    is_wanted = truth.is_wanted or _queue_grows(now, start)
    if seconds < LEAST_SECONDS:
        return Confidence.POSSIBLE
    if own_watch(notices) and truth.is_wanted is not False:
        return Confidence.CERTAIN if unanswered else Confidence.LIKELY
    if (truth.is_wanted or unanswered) and notices:
        return Confidence.LIKELY
    waits_behind = bool(is_in_one_piece(now)) and seconds < longest_prefill(now)
    if unanswered and (truth.is_wanted or now.running is not None) and not waits_behind:
        return Confidence.LIKELY
    if unanswered and is_known and seconds >= LONG_SECONDS and not waits_behind:
        return Confidence.LIKELY
    if is_wanted and is_known and seconds >= _enough(now, truth) and _stands(now, start):
        return Confidence.LIKELY
    return Confidence.POSSIBLE


def _enough(now: Activity, truth: Truth) -> float:
    """Seconds after which it is no prompt that is computed. That a queue grows, and nothing more,
    is seen beside one that is not cut as well."""
    least = LONG_SECONDS if truth.is_wanted else ONE_PIECE_SECONDS
    return max(least, longest_prefill(now)) if may_be_prefill(now) else least


def _counts_steps(now: Activity, start: float) -> bool:
    """The engine counts its steps, and none ended."""
    steps = from_on(now.window.find(Signal.STEPS), start)
    return steps is not None and steps.is_constant


def _queue_grows(now: Activity, start: float) -> bool:
    """Requests come and wait: its gauges are alive, and somebody waits."""
    waiting = from_on(now.waiting, start)
    return (
        waiting is not None
        and len(waiting.readings) > 1
        and waiting.last.value > waiting.first.value
    )


def _ask(argument: Argument, now: Activity, truth: Truth, seconds: float) -> None:
    argument.need(*truth.needs)
    if seconds < LEAST_SECONDS:
        argument.need("the same figures a minute later")
    if may_be_prefill(now) or seconds < longest_prefill(now):
        argument.against("one long prompt looks the same: it is counted when it is done")
        argument.need("progress of the prompt in the engine's log or its slots")
    elif now.prefill is None:
        argument.need("prompt tokens computed over time")


def _stands(now: Activity, start: float) -> bool:
    """The cache would fill with each chunk of a prefill."""
    kv = from_on(now.kv, start)
    return kv is None or kv.is_constant or len(kv.readings) == 1

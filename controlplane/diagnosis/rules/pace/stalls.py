"""Streams that stand still for as long as the prefill of another request takes."""

import re
from collections.abc import Iterator, Sequence

from controlplane.diagnosis.citing import number, says, seconds
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.rules.pace.prefill_chunk import weigh
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.told import number_of, numbers_in, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import BETWEEN_TOKENS
from controlplane.diagnosis.words.limits import PREFILL_CHUNK
from controlplane.diagnosis.words.speeds import PREFILL_A_SECOND
from dataplane.engine_metrics.signal import Unit

_GAP = (
    r"\b(gaps?|stalls?|stood still|freez\w*|froze\w*|pauses?|silence|no tokens? for)\b"
    r"|\b(itl|tpot|inter token|tbt|token latency)\b.*\b(max|worst|longest|p99\w*|p100)\b"
    r"|\b(max|worst|longest)\b.*\b(itl|tpot|inter token|tbt)\b"
)
_NOT_A_GAP = r"timeout|limit|allowed|slo\b|objective|target|client|kernel|step gap|at b\b"
_PREFILL = r"\b(prefill|prompt|forward|chunk)\b"
_NOT_PREFILL = r"tokens|per s\b|size|queue|wait|gap|ttft|decode|usage|count|share|p99|step\b"
_CHUNK = rf"{PREFILL_CHUNK}|^batch size$"
_LEAST_SECONDS = 0.25
"""A stream that stands still for less is not noticed."""
_TIMES = 6.0
"""The usual gap: a step with a moderate chunk beside it takes a few times as long."""
_ALIKE = (0.6, 1.5)
"""A gap over the prefill that it is held to be: clocks and the step around it add a little."""
_TIMES_A_TOKEN = 4.0
_SAME_PREFILL = 0.6
"""Of its speed alone: then it is not the whole machine that is slower."""


def stalls_for_prefill(now: Activity) -> Verdict | None:
    """CERTAIN where gaps between tokens are as long as a prefill that goes on, or a chunk of it,
    and are short without."""
    gaps = list(_gaps(now.window))
    long = [gap for gap in gaps if gap.value >= _LEAST_SECONDS]
    usual = _shortest(gaps, _usual_gap(now.window))
    if not long or usual is None:
        return None
    longest = max(long, key=lambda gap: gap.value)
    if longest.value < _TIMES * usual:
        return None
    same = _prefill_as_long_as(longest, now)
    if same is None:
        return None
    argument = Argument(now.window)
    for gap in gaps:
        argument.says(gap.says)
    argument.says(f"as long as the prefill of another: {same.says}")
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.kv)
    weigh(argument, now)
    argument.against("delivery.slow_client: the tokens are not made meanwhile")
    return argument.verdict(Confidence.CERTAIN)


def _shortest(gaps: Sequence[Figure], middle: float | None) -> float | None:
    """Of the gaps and their median, in seconds: what it is without a stall."""
    told = [gap.value for gap in gaps] + ([] if middle is None else [middle])
    return min(told, default=None)


def _prefill_as_long_as(gap: Figure, now: Activity) -> Figure | None:
    """One that takes the time of `gap`."""
    for prefill in _prefills(now):
        if _ALIKE[0] <= gap.value / prefill.value <= _ALIKE[1]:
            return prefill
    return None


def _gaps(window: Window) -> Iterator[Figure]:
    """Each that was told; some write several into one text."""
    for fact in told_all(window, _GAP, without=_NOT_A_GAP):
        if fact.unit is not Unit.SECONDS or fact.quantile == 0.5:
            continue
        if fact.value is not None:
            yield Figure(fact.value, says(fact), fact)
            continue
        factor = 0.001 if re.search(r"\bms\b", plain(fact.key)) else 1.0
        values = numbers_in(fact.raw)
        if _is_of_one_stream(values):
            continue
        for value in values:
            yield Figure(value * factor, says(fact), fact)


def _is_of_one_stream(gaps: Sequence[float]) -> bool:
    """Of several streams one alone stood still: a prefill holds all of them up."""
    return len(gaps) >= _SEVERAL and max(gaps) > _TIMES * sorted(gaps)[-2]


_SEVERAL = 3


def _usual_gap(window: Window) -> float | None:
    middles = [
        fact.value
        for fact in told_all(window, BETWEEN_TOKENS)
        if fact.quantile in (0.5, None) and fact.unit is Unit.SECONDS and fact.value
    ]
    return min(middles, default=None)


def _prefills(now: Activity) -> Iterator[Figure]:
    """How long a prefill, or a step of it, takes: as it was told, as a log follows it, or a chunk
    at the speed at which prompts are read."""
    window = now.window
    for fact in told_all(window, _PREFILL, without=_NOT_PREFILL):
        if fact.unit is Unit.SECONDS and fact.value:
            yield Figure(fact.value, says(fact), fact)
    before: LogEvent | None = None
    for event in window.events_of(LogKind.PROMPT_PROGRESS, LogKind.PROMPT_EVALUATED):
        took = event.fields.get("seconds")
        if took:
            yield Figure(took, event.line.strip()[:200])
        is_same = before is not None and before.words.get("task") == event.words.get("task")
        if before is not None and is_same and (before.at or 0.0) < (event.at or 0.0):
            yield Figure((event.at or 0.0) - (before.at or 0.0), event.line.strip()[:200])
        before = event
    chunk, rate = told_number(window, _CHUNK), _rate(now)
    size = number_of(chunk)
    if chunk is not None and size and rate:
        yield Figure(
            size / rate,
            f"{says(chunk)} at {number(round(rate))} tokens/s is {seconds(size / rate)} s",
        )


def _rate(now: Activity) -> float | None:
    """At which prompts are read."""
    told_rate: Fact | None = told_number(now.window, PREFILL_A_SECOND)
    value = number_of(told_rate)
    if value:
        return value
    return now.prefill.max if now.prefill is not None and now.prefill.max > 0 else None


def stalls_of_single_requests(now: Activity) -> Verdict | None:
    """A log tells of single requests what each of their tokens took: far longer where prompts of
    others were read meanwhile, at the same speed as before."""
    order = {id(event): place for place, event in enumerate(now.window.events)}
    made = _answers(now.window)
    if len(made) < 2:
        return None
    best, slow = min(made, key=_token_seconds), max(made, key=_token_seconds)
    alone, beside = _token_seconds(best), _token_seconds(slow)
    if beside < _TIMES_A_TOKEN * alone or beside < _LEAST_SECONDS / 2:
        return None
    until = order[id(slow)]
    since = max((order[id(each)] for each in made if order[id(each)] < until), default=0)
    read = [
        event
        for event in now.window.events_of(LogKind.PROMPT_PROGRESS, LogKind.PROMPT_STARTED)
        if since < order[id(event)] < until
    ]
    tasks = {event.words.get("task", "") for event in read} - {""}
    if len(tasks) < 2 or not _is_read_as_fast(now.window, since):
        return None
    argument = Argument(now.window)
    for event in (best, slow, *read[-2:]):
        argument.says(event.line.strip()[:200])
    argument.says(
        f"{alone * 1000:.4g} ms a token alone, {beside * 1000:.4g} ms while prompts of others "
        "are read"
    )
    argument.series(now.waiting)
    weigh(argument, now)
    argument.against("host.bound: prompts are read as fast as before")
    return argument.verdict(Confidence.CERTAIN)


def _answers(window: Window) -> list[LogEvent]:
    """Of which the log tells how many tokens were made, and in what time."""
    return [
        event
        for event in window.events_of(LogKind.GENERATED)
        if event.fields.get("tokens", 0.0) > 0 and event.fields.get("seconds", 0.0) > 0
    ]


def _token_seconds(answer: LogEvent) -> float:
    return answer.fields["seconds"] / answer.fields["tokens"]


def _is_read_as_fast(window: Window, since: int) -> bool:
    """One of the prompts of that time at least: several that are read in one batch share its speed,
    and each of them looks slower."""
    speeds = [
        (place, event.fields["tokens"] / event.fields["seconds"])
        for place, event in enumerate(window.events)
        if event.kind is LogKind.PROMPT_EVALUATED
        and event.fields.get("seconds", 0.0) > 0
        and event.fields.get("tokens", 0.0) > 0
    ]
    best = max((speed for _, speed in speeds), default=0.0)
    of_then = [speed for place, speed in speeds if place > since]
    return len(speeds) < 2 or max(of_then, default=best) >= _SAME_PREFILL * best

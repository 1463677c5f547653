"""Whether the process that met a failure of memory went on: then something was refused, and no
engine was lost."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.citing import moved
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_DIED = (LogKind.DIED, LogKind.FAILED_TO_START)
_ENDS = (*_DIED, LogKind.STARTING, LogKind.WEIGHTS_LOADING, LogKind.HOST_OUT_OF_MEMORY)
_RUN_OUT = (LogKind.OUT_OF_MEMORY, LogKind.KV_CACHE_TOO_SMALL)
_ANSWERS = (LogKind.REQUEST_ENDED, LogKind.GENERATED, LogKind.PROMPT_EVALUATED)
_WORK = (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS, Signal.FINISHED)
_STILL_COUNTED = 20.0
"""Seconds: what engines average over before a line, twice; later tokens are of later."""
_AGAIN = 5.0
"""Seconds: what the ranks of one engine write of one failure lies closer together."""


def weighed(rule: Rule) -> Rule:
    """That rule, sure of itself only where the failure ended a process or comes again and again."""

    def judge(window: Window) -> Verdict | None:
        verdict = rule.judge(window)
        if verdict is None or verdict.confidence is Confidence.POSSIBLE:
            return verdict
        failure = find_failure(window)
        worked = "" if failure is None else worked_after(window, failure)
        if not worked:
            return verdict
        return replace(
            verdict,
            confidence=Confidence.POSSIBLE,
            against=(
                f"the process outlived it: {worked}. What asked for that memory was refused",
                *verdict.against,
            ),
            needs=("what became of the request or the load that was refused", *verdict.needs),
        )

    # An engine that ran out of memory and is gone is one trouble, and this is its name.
    return replace(rule, judge=judge, explains=rule.explains | {Mechanism.ENGINE_GONE})


def worked_after(window: Window, failure: Failure) -> str:
    """What the same process did after its only failure; empty where it ended, nothing shows that it
    went on, or memory runs out again and again."""
    if failure.index < 0 or _ended_after(window, failure.index) or _comes_again(window):
        return ""
    return next(_work_after(window, failure), "")


def _ended_after(window: Window, index: int) -> bool:
    return any(event.index > index for event in window.events_of(*_ENDS))


def _comes_again(window: Window) -> bool:
    times = [event.at for event in window.events_of(*_RUN_OUT) if event.at is not None]
    return bool(times) and max(times) - min(times) > _AGAIN


def _work_after(window: Window, failure: Failure) -> Iterator[str]:
    moment = _moment(window, failure)
    if moment is None:
        refused = _refused_tasks(window)
        ended = [
            event
            for event in window.events_of(*_ANSWERS)
            if event.index > failure.index and event.words.get("task") not in refused
        ]
        if ended:
            yield f"{len(ended)} lines of answers stand after it"
        return
    since = moment + _STILL_COUNTED
    for series in window.all_series(Signal.GENERATION_RATE):
        found = [reading for reading in series.readings if reading.at >= since and reading.value]
        if found and series.origin.kind is SourceKind.LOG:
            yield f"{series.origin.name} {found[-1].raw}, {found[-1].at - moment:.0f} s later"


def _refused_tasks(window: Window) -> frozenset[str]:
    """That ended with the failure: a slot that is given up is no answer."""
    return frozenset(
        found[1]
        for event in window.events_of(*_RUN_OUT)
        if (found := _TASK.search(event.line)) is not None
    )


_TASK = re.compile(r"\btask id = (\d+)")


def _moment(window: Window, failure: Failure) -> float | None:
    """A traceback's last line has no stamp; the last line with one that stands above it has."""
    if failure.at is not None:
        return failure.at
    times = window.line_times[: failure.index]
    return next((time for time in reversed(times) if time is not None), None)


def works_on(window: Window, at: float | None) -> str:
    """Counters of work that only grow, up to the time `at` at least, as those of a process do that
    nobody ended; empty where one went back, stood at last, or none is there."""
    counters = _counters_of_one_process(window, at)
    growing = [series for series in counters if series.values[-1] > series.values[-2]]
    return f"work goes on in the same process: {moved(growing[0])}" if growing else ""


def began_anew(window: Window, at: float | None) -> bool | None:
    """Whether counters of work went back, as those of a process do that took the place of another;
    None where the page was not read twice up to `at`, or the log tells of an end."""
    counters = [series for signal in _WORK for series in window.all_series(signal)]
    known = [series for series in counters if len(series.readings) > 1]
    if not known or window.events_of(*_DIED) or not _is_read_until(known, at):
        return None
    return not all(_grows(series) for series in known)


def _counters_of_one_process(window: Window, at: float | None) -> list[Series]:
    counters = [series for signal in _WORK for series in window.all_series(signal)]
    if not counters or window.events_of(*_DIED) or not _is_read_until(counters, at):
        return []
    return counters if all(_grows(series) for series in counters) else []


def _is_read_until(counters: list[Series], at: float | None) -> bool:
    return at is None or max(series.last.at for series in counters) >= at


def _grows(series: Series) -> bool:
    values = series.values
    return len(values) > 1 and all(
        later >= earlier for earlier, later in itertools.pairwise(values)
    )

"""Arrivals that multiply while less and less is answered: the same callers again."""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import grown
from controlplane.diagnosis.views.token_work import stretch_of, works_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_MULTIPLIED = 2.0
_FEWER = 0.8
"""Of the work before: more callers would bring engines to their limit, and not below it."""
_GIVEN_UP = 0.5
"""Of what ends: without an answer."""
_RECENT = 1 / 3
_BEFORE = 1 / 4


def judge(window: Window) -> Verdict | None:
    """LIKELY where arrivals rose and answers fell, and most requests are given up. POSSIBLE where
    nobody sees what the engines do."""
    arrived, ended = window.find(Signal.GATEWAY_ARRIVED), window.find(Signal.GATEWAY_ENDED)
    if arrived is None or ended is None or window.find(Signal.GENERATION_TOKENS) is None:
        return None
    span = window.end - window.start
    if span <= 0:
        return None
    early, late = window.start + _BEFORE * span, window.end - _RECENT * span
    came_before = grown(arrived, window.start, early) / (_BEFORE * span)
    came = grown(arrived, late, window.end) / (_RECENT * span)
    if came_before <= 0 or came < _MULTIPLIED * came_before:
        return None
    work = _work_of(window, early, late)
    if work is not None and (work.before <= 0 or work.after > _FEWER * work.before):
        return None
    gone = grown(ended, late, window.end) / (_RECENT * span)
    if gone < _GIVEN_UP * came:
        return None
    argument = Argument(window)
    argument.series(arrived, f"{number(came_before)} -> {number(came)} a second")
    argument.series(ended, "most of them without an answer")
    argument.series(window.find(Signal.GATEWAY_IN_FLIGHT))
    return _judged(argument, work)


def _judged(argument: Argument, work: "_Work | None") -> Verdict:
    argument.need("requests by caller, and which of them are retries")
    if work is None:
        argument.need("tokens that the engines made: they are counted when an answer ends")
        return argument.verdict(Confidence.POSSIBLE)
    done = f"{number(work.before)} -> {number(work.after)} {work.unit}"
    argument.says(f"the engines do {done} a second meanwhile")
    argument.against("queue.overload: more callers would find engines at their limit, not below it")
    return argument.verdict(Confidence.LIKELY)


@dataclass(frozen=True, slots=True)
class _Work:
    """Of all engines, a second."""

    unit: str
    before: float
    after: float


def _work_of(window: Window, early: float, late: float) -> _Work | None:
    """None where it cannot be seen."""
    made = window.all_series(Signal.GENERATION_TOKENS)
    parts = [stretch_of(each, window, window.start, early) for each in made]
    parts += [stretch_of(each, window, late, window.end) for each in made]
    found = works_of(parts)
    if found is None:
        return None
    unit, works = found
    return _Work(unit, sum(works[: len(made)]), sum(works[len(made) :]))


MULTIPLIED_ARRIVALS = Rule(
    id="fleet-retry-storm",
    mechanism=Mechanism.QUEUE_RETRY_STORM,
    judge=judge,
    needs=("arrivals and endings at the gateway", "generated tokens"),
    told_apart="From overload by engines that do less than before, from a tenant's flood by "
    "requests that end without an answer as fast as they come.",
    remedy="Back off with jitter and a budget for retries, refuse early with Retry-After; then "
    "find what made the engines slow at first.",
    hides="More replicas answer the retries and hide what made them.",
    explains=frozenset(
        {
            Mechanism.INTERFERENCE_PREFILL,
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_HEAD_OF_LINE,
            Mechanism.QUEUE_BURST_DRAINING,
            Mechanism.POLICY_REJECTING,
        }
    ),
)

"""A scaler that is there and adds nothing while load and waits grow: what it reads does not show
them."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.life.late_load import ARRIVALS
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.places import MOST_PLACES, PLACES
from dataplane.engine_metrics.signal import Signal, Unit

_GROWN = 3.0
"""Times the arrivals: no headroom that people keep is as large."""
_MISSED = 3.0
"""Times an objective, or a wait from before."""
_DESIRED = r"\b(desired|wanted|target|planned)\b"
_SCALER = r"\b(planner|scaler|autoscaler|hpa|keda|operator|controller)\b"


def judge_blind_scaler(window: Window) -> Verdict | None:
    """CERTAIN where its own estimate is known and far below what callers see."""
    argument = Argument(window)
    arrivals = course_of(window, Signal.ARRIVAL_RATE, ARRIVALS)
    if arrivals is None or arrivals.first.value <= 0:
        return None
    if arrivals.max < _GROWN * arrivals.first.value:
        return None
    still = _still_wanted(window)
    wait = _missed(argument, window)
    if still is None or wait is None or _is_at_most(window, still):
        return None
    argument.series(arrivals)
    argument.fact(still, "no more are wanted")
    for fact in told_all(window, rf"{_DESIRED}|{PLACES}$"):
        argument.fact(fact)
    now = activity_of(window)
    for series in window.all_series(Signal.WAITING) or (now.waiting,):
        argument.series(series)
    argument.against("queue.overload: a scaler is there, and more is allowed as far as is known")
    argument.against("startup.slow: no replica was asked for")
    seen = _own_view(argument, window, wait)
    if seen:
        return argument.verdict(Confidence.CERTAIN, detail="a scaler that does not see it")
    argument.need("what the scaler reads", "the most replicas that it may ask for")
    return argument.verdict(Confidence.POSSIBLE, detail="a scaler that does not see it")


def _still_wanted(window: Window) -> Fact | None:
    """As many as are there, and not more than at first."""
    for fact in told_all(window, _DESIRED):
        value, key = number_of(fact), plain(fact.key)
        if value is None or fact.unit is not None:
            continue
        stem = re.sub(rf"{_DESIRED}|{PLACES}", " ", key).split()
        there = [
            each
            for each in told_all(window, rf"\b{PLACES}\b", without=rf"{_DESIRED}|max|min")
            if re.sub(PLACES, " ", plain(each.key)).split() in (stem, [*stem, "ready"])
        ]
        values = [number_of(each) for each in there]
        if values and all(each is not None and each >= value for each in values):
            return fact
    return None


def _missed(argument: Argument, window: Window) -> Fact | None:
    """What callers wait for, far above what it should be or was."""
    waits = told_all(
        window, r"ttft|wait|latency", without=rf"{_SCALER}|objective|slo|target|limit|max"
    )
    numbers = [fact for fact in waits if fact.unit is Unit.SECONDS and fact.value]
    worst = max(numbers, key=lambda fact: fact.value or 0.0, default=None)
    if worst is None or worst.value is None:
        return None
    objective = told_number(window, r"(objective|slo|target).*(ttft|wait|latency)|ttft (slo|obj)")
    bound = number_of(objective)
    same = [fact.value for fact in numbers if fact.key == worst.key and fact.at < worst.at]
    is_missed = bound is not None and worst.value >= _MISSED * bound
    is_grown = bool(same) and worst.value >= _MISSED * (same[0] or 0.0)
    if not (is_missed or is_grown):
        return None
    argument.fact(worst)
    argument.fact(objective)
    return worst


def _is_at_most(window: Window, wanted: Fact) -> bool:
    """It may not ask for more."""
    most = number_of(told_number(window, MOST_PLACES))
    return most is not None and (number_of(wanted) or 0.0) >= most


def _own_view(argument: Argument, window: Window, wait: Fact) -> bool:
    """What it reads or estimates of that wait is far less."""
    for fact in told_all(window, rf"{_SCALER}.*\b(ttft|wait|latency|estimate|est|sees|reads)\b"):
        value = number_of(fact)
        if value is None or wait.value is None or fact.unit is not wait.unit:
            continue
        times = wait.value / max(value, 1e-3)
        if times >= _MISSED:
            seen = f"{says(fact)}, and {says(wait)}"
            argument.says(f"{seen}: {number(times)} times what the scaler sees")
            return True
    return False

"""clock.skew: times of two machines were held against each other, and their clocks differ."""

import re
from collections.abc import Sequence

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.telemetry.clocks.impossible import (
    NOT_YET,
    as_long_as_an_epoch,
    is_wrapped_now_and_then,
    negative_sums,
    negative_times,
    sane_times,
    wrapped,
)
from controlplane.diagnosis.rules.telemetry.clocks.milestones import order_of
from controlplane.diagnosis.rules.telemetry.clocks.offsets import (
    LEAST_OFFSET,
    apart,
    by_wall_clock,
    far_apart,
    is_offset,
    is_step,
)
from controlplane.diagnosis.rules.telemetry.clocks.zones import whole_hours_apart
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window

_NEGATIVE_LINE = (
    r"out[- ]of[- ]order samples?|"
    r"(ttft|latency|duration|elapsed|transfer|queue|delay|interval|took)\b[^\n]{0,24}?[=: ]-\d"
    r"|issued in the future|used before (it was )?issued"
    r"|negative (duration|latency|interval|time|elapsed|delta)"
    r"|(duration|elapsed|interval|time(delta)?|sleep length) (must be|is|was)( a)? (non-?)?negative"
    rf"|requesttimetooskewed|skew too great|{NOT_YET}|too far in(to)? the future"
    r"|span .{0,60}\b(ends?|starts?) .{0,20}before (its|the) (parent|start)|observ\w+ a negative"
)


def _judge(window: Window) -> Verdict | None:
    return _judge_clocks(window) or _judge_zones(window)


def _judge_zones(window: Window) -> Verdict | None:
    argument = Argument(window)
    if not whole_hours_apart(argument, window):
        return None
    _cite_sound(argument, window)
    argument.against("engine.hung and queue.overload: on one clock the request took no hours")
    argument.need("the zone in which each time stamp was written and read")
    return argument.verdict(Confidence.LIKELY)


def _judge_clocks(window: Window) -> Verdict | None:
    argument = Argument(window)
    summed = negative_sums(argument, window)
    impossible = [*negative_times(argument, window), *wrapped(argument, window)]
    epochs = as_long_as_an_epoch(argument, window)
    impossible += epochs
    order = order_of(argument, window)
    impossible += order.reversed
    if summed is not None:
        _cite_sound(argument, window)
        return argument.verdict(summed)
    lines = [*window.lines_with(_NEGATIVE_LINE), *_told_lines(window)]
    for line in lines[:2]:
        argument.says(" ".join(line.split())[:200])
    differ = apart(argument, window)
    fits = differ and (is_offset(argument, window) or is_step(argument, window) or order.is_odd)
    is_wrong = bool(impossible or lines or fits)
    if not (is_wrong or differ or order.is_odd):
        return None
    for fact in _clocks(window):
        argument.fact(fact)
    by_wall = by_wall_clock(argument, window)
    _cite_sound(argument, window)
    argument.against("a slow transfer, queue or network: no time is less than nothing")
    if is_wrong and (differ or order.is_same_each_time):
        return argument.verdict(Confidence.CERTAIN)
    if is_wrong and (
        _two_places(window, [*impossible, *lines])
        or by_wall
        or is_wrapped_now_and_then(window)
        or (epochs and sane_times(argument, window))
    ):
        argument.need("offset of both machines' clocks")
        return argument.verdict(Confidence.LIKELY)
    if differ and _is_compared(window):
        argument.need("the same interval measured on one clock")
        return argument.verdict(Confidence.LIKELY)
    if not (is_wrong or order.is_odd or far_apart(window)):
        return None
    argument.need("offset of both machines' clocks", "which process took each of the two times")
    return argument.verdict(Confidence.POSSIBLE)


def _told_lines(window: Window) -> list[str]:
    """The same, where somebody copied the line into a fact."""
    return [
        says(fact)
        for fact in window.facts
        if fact.value is None and re.search(_NEGATIVE_LINE, fact.raw, re.IGNORECASE)
    ]


def _two_places(window: Window, wrong: Sequence[str]) -> bool:
    """Two machines were told, or those times that cannot be are of two."""
    names = {
        fact.raw
        for fact in told_all(
            window,
            r"\b(node|host|machine|pod|server|replica|zone|front|frontend|worker|process|rank)\b",
        )
        if fact.value is None
    }
    if len({fact.raw.strip().lower() for fact in _clocks(window)}) > 1:
        return True
    keys = " ".join(wrong).lower()
    pairs = (
        ("prefill", "decode"),
        ("gateway", "engine"),
        ("client", "server"),
        ("sent", "received"),
    )
    return len(names) > 1 or any(one in keys and two in keys for one, two in pairs)


def _clocks(window: Window) -> tuple[Fact, ...]:
    """Whose clock took which end, as somebody tells."""
    return tuple(
        fact
        for fact in told_all(window, _END_TAKEN)
        if fact.value is None and re.search(r"\bclock\b", fact.raw.lower())
    )


_END_TAKEN = (
    r"(?=.*\b(start(ed)?|begin|began|sent|arriv\w+|end(ed)?|finish\w*|received|complet\w+)\b)"
    r"(?=.*\b(source|clock|from|by|taken|stamped|at)\b)"
)


def _is_compared(window: Window) -> bool:
    """Times of two ends are held against each other."""
    return bool(
        told_all(
            window,
            r"(cross|between|one way|hop|transit|client to|gateway to|across)",
            without=r"between \w*(tokens?|chunks?|steps?|outputs?|requests?|batch\w*)",
        )
        or told_all(window, r"\b(start|end|sent|received|arrived)\b.*\b(at|time|timestamp)\b")
    )


def _cite_sound(argument: Argument, window: Window) -> None:
    """Times of one clock that are as they should be."""
    facts: Sequence[Fact] = told_all(window, r"\b(ttft|e2e)\b|tokens? per s|tok per s|throughput")
    by_key: dict[str, list[Fact]] = {}
    for fact in facts:
        value = number_of(fact)
        if value is not None and value > 0:
            by_key.setdefault(fact.key, []).append(fact)
    for key, told in by_key.items():
        argument.says(f"{key} {', '.join(fact.raw for fact in told)}: sound, of one clock")
    for fact in told_all(window, r"^(\w+ )?(node|host|machine)$"):
        if fact.value is None:
            argument.fact(fact)


SKEW = Rule(
    id="clock-skew",
    mechanism=Mechanism.CLOCK_SKEW,
    judge=_judge,
    needs=("times of the same request on two machines", "offset of the machines' clocks"),
    told_apart=(
        "From transfer.bound and a slow network by times below zero, or by a difference that stays "
        "the same whatever the load; from telemetry.misread by a clock that is known to be off."
    ),
    remedy=(
        "Keep the clocks (NTP, chrony, PTP) and compare durations that were measured on one clock, "
        "never the ends of two; measure intervals with the steady clock."
    ),
    hides=(
        f"Cutting off what is below zero hides an offset of less than a duration: up to "
        f"{number(LEAST_OFFSET * 1000)} ms it looks like a slow network."
    ),
    explains=frozenset(
        {Mechanism.TRANSFER_BOUND, Mechanism.PHASE_MISMATCH, Mechanism.TELEMETRY_MISREAD}
    ),
)

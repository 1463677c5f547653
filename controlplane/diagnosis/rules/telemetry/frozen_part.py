"""One of several stands still, to the digit, while the others move."""

import re

from controlplane.diagnosis.citing import changed, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.standing import (
    ENGINE_SOURCES,
    LEAST_SECONDS,
)
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.moving import WORK
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal


def one_of_several(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """One rank stands still to the digit, others move, and what is in flight is theirs."""
    if truth.in_flight is None:
        return None
    parts = now.window.all_series(Signal.RUNNING)
    frozen = [
        part
        for part in parts
        if part.labels and part.is_constant and part.last.value > 0 and _counts_nothing(now, part)
    ]
    others = [part for part in parts if part not in frozen]
    if not frozen or not others or len(frozen) > len(others):
        return None
    live = sum(part.last.value for part in others)
    waiting = [
        part
        for part in now.window.all_series(Signal.WAITING)
        if any(part.labels == other.labels for other in others)
    ]
    live += sum(part.last.value for part in waiting)
    if truth.in_flight.last.value > live + max(1.0, _READ_APART * live):
        return None
    for part in frozen:
        names = ", ".join(f"{key} {value}" for key, value in sorted(part.labels.items()))
        argument.says(f"{stands(part)} ({names}): to the digit, and its tokens do not move")
        for counter in _counters_of(now, part):
            argument.series(counter)
    for part in others:
        argument.series(part)
    argument.says(f"{'; '.join(truth.says)}: what the others have is all that there is")
    argument.against("routing.skew: the frozen one has nothing in flight")
    argument.against("engine.hung: nobody waits for it")
    return Confidence.CERTAIN if truth.is_answered else Confidence.LIKELY


_READ_APART = 0.2
"""Of what runs: gauges and gateway are read at different moments."""


def _counts_nothing(now: Activity, part: Series) -> bool:
    counters = _counters_of(now, part)
    return bool(counters) and not any(series.increase for series in counters)


def _counters_of(now: Activity, part: Series) -> list[Series]:
    """What work of that one would move."""
    return [
        series
        for signal in WORK
        for series in now.window.all_series(signal)
        if series.labels == part.labels and len(series.readings) > 1
    ]


def left_by_a_process(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Several processes write one gauge, each its own; that of one stands to the digit, and what is
    in flight is what the others have. Whoever ends without a word leaves its last value."""
    if truth.in_flight is None:
        return None
    parts = [part for part in now.window.all_series(Signal.RUNNING) if "process" in part.labels]
    frozen = [
        part
        for part in parts
        if part.is_constant and part.last.value > 0 and part.span_seconds >= LEAST_SECONDS
    ]
    others = [part for part in parts if part not in frozen]
    if not frozen or not others or truth.in_flight.last.value > _most_of(now, others):
        return None
    for part in frozen:
        argument.says(f"{stands(part)} (pid {part.labels['process']}): to the digit")
    for part in others:
        argument.series(part, f"pid {part.labels['process']}")
    argument.says(f"{'; '.join(truth.says)}: what the others have is all that there is")
    alive = {part.labels["process"] for part in others}
    dead = {part.labels["process"] for part in frozen}
    told = [
        fact
        for fact in told_all(now.window, r"\b(pids?|process(es)?)\b")
        if alive & _numbers_of(fact) and not dead & _numbers_of(fact)
    ]
    for fact in told:
        argument.fact(fact, "that is who works")
    argument.against("release.leak and engine.hung: nobody is there any more")
    return Confidence.CERTAIN if told or truth.is_answered else Confidence.LIKELY


def _most_of(now: Activity, parts: list[Series]) -> float:
    """What may be in flight of those that these run and have in their queues."""
    keys = [part.labels for part in parts]
    waiting = [part for part in now.window.all_series(Signal.WAITING) if part.labels in keys]
    live = sum(part.last.value for part in (*parts, *waiting))
    return live + max(1.0, _READ_APART * live)


def _numbers_of(fact: Fact) -> set[str]:
    return set(re.findall(r"\d+", f"{fact.key} {fact.raw}"))


def one_that_is_gone(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A series of somebody who was taken away stands, while those of the others move."""
    by_name: dict[str, list[Series]] = {}
    for series in now.window.series:
        if series.labels and series.origin.kind in ENGINE_SOURCES:
            by_name.setdefault(series.origin.name, []).append(series)
    for siblings in by_name.values():
        frozen = [
            part
            for part in siblings
            if part.is_constant and part.last.value > 0 and part.span_seconds >= LEAST_SECONDS
        ]
        moving = [part for part in siblings if len(part.readings) > 1 and not part.is_constant]
        for part in frozen if moving else ():
            if any(counter.increase for counter in _counters_of(now, part)):
                continue  # it works
            told, changed = _said_gone(now, set(part.labels.values()))
            if told or changed:
                names = ", ".join(f"{key} {value}" for key, value in sorted(part.labels.items()))
                argument.says(f"{stands(part)} ({names}): to the digit, and it is gone")
                for other in moving:
                    argument.series(other, "moves")
                for sentence in (*told, *changed):
                    argument.says(sentence)
                argument.against("routing.skew and release.leak: nobody is there any more")
                return Confidence.CERTAIN if told else Confidence.LIKELY
    return None


def _said_gone(now: Activity, names: set[str]) -> tuple[list[str], list[str]]:
    """Facts, and changes, that name one of them and say that it is no more."""
    told = [f"{fact.key} {fact.raw}" for fact in now.window.facts]
    changes = [changed(now.window, change) for change in now.window.changes]
    return [text for text in told if _says_gone(text, names)], [
        text for text in changes if _says_gone(text, names)
    ]


_GONE = re.compile(
    r"away|delet|remov|terminat|gone|scaled (in|down)|killed|retired|not exist"
    r"|evicted (pod|replica|worker|node)",
    re.IGNORECASE,
)


def _says_gone(text: str, names: set[str]) -> bool:
    return bool(_GONE.search(text)) and any(
        re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in names if len(name) > 1
    )

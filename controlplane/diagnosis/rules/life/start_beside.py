"""Replicas beside each other: one start that took much longer than another's, by its stages."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window

_STAGES = {
    LogKind.WEIGHTS_LOADED: "loading weights",
    LogKind.COMPILED: "compiling",
    LogKind.GRAPH_CAPTURE_FINISHED: "capturing graphs",
    LogKind.INITIALIZED: "profiling and warm-up",
}
_LONGER = 1.8
"""Times the same stage of another: equal machines do the same work within half as much again."""
_LEAST_SECONDS = 10.0
"""More than the shortest: below it nobody waits for it."""
_RECENT_SECONDS = 600.0
"""A start that ended longer ago has nobody wait for it any more."""
_LEAST_PAGES = 3
_EXPORTED = re.compile(r"^startup_time_seconds_")
"""Of SGLang, which exports its stages as long as the process lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Of the newest start of one replica."""

    seconds: float
    at: float | None
    is_seen: bool
    """It ended while somebody watched."""


def judge_beside(window: Window) -> Verdict | None:
    """LIKELY where a replica came up just now, and one stage of its start took several times that
    of another replica. A stage that is long everywhere is nothing that can be seen by comparing,
    and two starts of one replica, cold and warm, differ for a reason of their own."""
    stages = _stages(window)
    slow = {stage: found for stage, told in stages.items() if (found := _slowest(window, told))}
    if not slow:
        return None
    stage = max(slow, key=lambda each: slow[each][1] - slow[each][2])
    place, most, least = slow[stage]
    argument = Argument(window)
    for name, told in stages.items():
        parts = (f"{who} {number(each.seconds)} s" for who, each in told.items())
        argument.says(f"{name}: {', '.join(parts)}")
    argument.says(
        f"{stage} took {number(most)} s at {place}, and {number(least)} s at another replica"
    )
    argument.against("engine.hung and a failed start: it came up")
    argument.need("from where that replica reads its weights, and who reads beside it")
    return argument.verdict(Confidence.LIKELY, detail=stage)


def _slowest(window: Window, told: Mapping[str, _Told]) -> tuple[str, float, float] | None:
    """Who took far longer, for how long, and the shortest of the others."""
    place = max(told, key=lambda each: told[each].seconds)
    most, least = told[place], min(each.seconds for each in told.values())
    if len(told) < 2 or most.seconds < max(_LONGER * least, least + _LEAST_SECONDS):
        return None
    is_recent = most.at is not None and window.end - most.at <= _RECENT_SECONDS
    return (place, most.seconds, least) if most.is_seen and is_recent else None


def _stages(window: Window) -> dict[str, dict[str, _Told]]:
    """Of each stage, the newest start of each replica that tells of it."""
    stages: dict[str, dict[str, _Told]] = {}
    for stage, place, told in (*_logged(window), *_exported(window)):
        if place:
            stages.setdefault(stage, {})[place] = told
    return stages


def _logged(window: Window) -> Iterator[tuple[str, str, _Told]]:
    for event in window.events_of(*_STAGES, LogKind.READY):
        place = event.words.get("replica") or event.place
        told = (
            {
                name.removesuffix("_seconds"): value
                for name, value in event.fields.items()
                if name.endswith("_seconds")
            }
            if event.kind is LogKind.READY
            else {_STAGES[event.kind]: event.fields.get("seconds")}
        )
        for stage, seconds in told.items():
            if seconds is not None:
                yield stage, place, _Told(seconds=seconds, at=event.at, is_seen=True)


def _exported(window: Window) -> Iterator[tuple[str, str, _Told]]:
    for fact in window.facts:
        if _EXPORTED.search(fact.key) and fact.value is not None:
            stage = _EXPORTED.sub("", fact.key).replace("_", " ")
            told = _Told(seconds=fact.value, at=fact.at, is_seen=_has_appeared(window, fact))
            yield stage, fact.place, told


def _has_appeared(window: Window, fact: Fact) -> bool:
    """Its page came while pages of others had been read for some time: before, there was none."""
    pages = [each for each in window.series if each.origin.place == fact.place]
    others = [each for each in window.series if each.origin.place not in ("", fact.place)]
    watched = max((len(each.readings) for each in pages), default=0)
    return (
        watched >= _LEAST_PAGES
        and min(each.first.at for each in pages) >= fact.at
        and any(each.first.at <= fact.at - _LEAST_SECONDS for each in others)
    )

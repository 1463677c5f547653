"""One replica whose start took much longer than that of another, by a stage that can be named."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
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
_FAILED = (
    LogKind.OUT_OF_MEMORY,
    LogKind.FAILED_TO_START,
    LogKind.FREE_MEMORY_TOO_LITTLE,
    LogKind.KV_CACHE_TOO_SMALL,
)


def judge(window: Window) -> Verdict | None:
    """CERTAIN where all came up, and one stage of one of them took several times that of another.
    A stage that is long everywhere is nothing that can be seen by comparing."""
    if window.events_of(*_FAILED):
        return None
    told = _told(window)
    slow = {
        stage: seconds
        for stage, seconds in told.items()
        if len(seconds) > 1
        and max(seconds) >= _LONGER * min(seconds)
        and max(seconds) - min(seconds) >= _LEAST_SECONDS
    }
    if not slow:
        return None
    argument = Argument(window)
    stage = max(slow, key=lambda each: max(slow[each]) - min(slow[each]))
    for name, seconds in told.items():
        argument.says(f"{name}: {', '.join(number(each) for each in sorted(seconds))} s")
    argument.says(
        f"{stage} took {number(max(slow[stage]))} s at one replica and {number(min(slow[stage]))} "
        "s at another"
    )
    argument.against("a failed start: all of them came up")
    argument.need("from where that replica reads its weights, and who reads beside it")
    return argument.verdict(Confidence.CERTAIN, detail=stage)


def _told(window: Window) -> dict[str, list[float]]:
    """Seconds of each stage, of every start that was seen."""
    told: dict[str, list[float]] = {}
    for kind, stage in _STAGES.items():
        seconds = [
            event.fields["seconds"] for event in window.events_of(kind) if "seconds" in event.fields
        ]
        if seconds:
            told[stage] = seconds
    for event in window.events_of(LogKind.READY):
        for name, value in event.fields.items():
            if name.endswith("_seconds"):
                told.setdefault(name.removesuffix("_seconds"), []).append(value)
    for fact in window.facts:
        if _IS_STAGE.search(fact.key) and fact.value is not None:
            told.setdefault(_IS_STAGE.sub("", fact.key).replace("_", " "), []).append(fact.value)
    return told


_IS_STAGE = re.compile(r"^startup_time_seconds_")
"""Of SGLang, which exports its stages."""


LATE_START = Rule(
    id="fleet-late-start",
    mechanism=Mechanism.STARTUP_SLOW,
    judge=judge,
    needs=("the log of each replica from its start",),
    told_apart="From a start that is long everywhere by another replica's, which was not; from a "
    "failed start by coming up.",
    remedy="Give the slow one what the fast one has: weights on a local disk or in the node's "
    "cache, a compile cache, a link that nobody else fills.",
    hides="A second start on the same node reads from the page cache and looks well.",
    explains=frozenset({Mechanism.ROUTING_SKEW, Mechanism.CAPACITY_LATE}),
)

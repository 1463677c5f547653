"""oom.graph_capture: weights and KV cache stood, and graphs found no room."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.rules.memory.ledger import (
    asked_for,
    before,
    known,
    placed,
    shortened,
)
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_TOPICS = r"util|fraction|graph|capture|bs$|batch|seq|seat|vram|gpu.*mem|total|eager"


def _judge(window: Window) -> Verdict | None:
    failure = find_failure(window)
    if failure is None or failure.stage is not Stage.CAPTURE:
        return None
    started = before(window, failure, LogKind.GRAPH_CAPTURE_STARTED)
    is_seen = failure.is_named or bool(started)
    evidence = [*asked_for(failure)]
    if started:
        evidence.append(
            f"capture began and has no line that it finished: {shortened(started[-1].line)}"
        )
    if failure.stage_line and failure.is_named:
        evidence.append(f"the failure says where: {shortened(failure.stage_line)}")
    evidence += placed(window, failure)
    return Verdict(
        confidence=Confidence.CERTAIN if is_seen else Confidence.POSSIBLE,
        evidence=(*evidence, *known(window, _TOPICS)),
        against=_against(failure),
        needs=() if is_seen else ("the traceback of the failure",),
        detail="graphs",
    )


def _against(failure: Failure) -> tuple[str, ...]:
    against = ["not the weights or a profile: both were over and the KV cache was placed"]
    if failure.reserved is not None and failure.fits_in_gaps:
        against.append(
            f"not oom.fragmentation: {failure.reserved.raw} unallocated belong to other pools than "
            "a graph's own"
        )
    return tuple(against)


GRAPH_CAPTURE = Rule(
    id="oom-graph-capture",
    mechanism=Mechanism.OOM_GRAPH_CAPTURE,
    judge=_judge,
    needs=("the engine's log from its start",),
    told_apart=(
        "From oom.load and oom.profile by the KV cache that was placed already; from oom.warmup by "
        "the missing line that graphs are finished."
    ),
    remedy=(
        "Leave room for graphs: a slightly smaller memory fraction, or fewer and smaller batch "
        "sizes to capture."
    ),
    hides=(
        "Switching graphs off makes it start and every decode step slower, most at small batches; "
        "a smaller fraction takes the room from the KV cache."
    ),
)

"""oom.fragmentation: the allocator held enough, and not in one piece."""

from controlplane.diagnosis.citing import course
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.rules.memory.ledger import asked_for, facts_named, known
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_WASTED = 0.1
"""Of the device. A start that leaves more than this in gaps is fragmented, whatever its stage."""
_TOPICS = r"alloc|expandable|segment|util|fraction|frag|reserved|conf"


def _judge(window: Window) -> Verdict | None:
    failure = find_failure(window)
    if failure is None or failure.wanted is None or failure.reserved is None:
        return None
    if not failure.fits_in_gaps:
        return None
    evidence = [
        f"{failure.reserved.raw} reserved but unallocated >= {failure.wanted.raw} wanted",
        *asked_for(failure),
    ]
    evidence += [
        course(series)
        for signal in (Signal.KV_USAGE, Signal.RUNNING, Signal.WAITING)
        if (series := window.find(signal)) is not None
    ]
    is_serving = failure.stage.is_serving or failure.stage is Stage.UNKNOWN
    return Verdict(
        confidence=_confidence(window, failure, is_serving=is_serving),
        evidence=(*evidence, *known(window, _TOPICS)),
        against=_against(window, failure, is_serving=is_serving),
        needs=() if is_serving else ("the allocator's snapshot at the failure",),
        detail="allocator gaps",
    )


def _confidence(window: Window, failure: Failure, *, is_serving: bool) -> Confidence:
    if _is_expandable(window):
        return Confidence.POSSIBLE
    if is_serving:
        return Confidence.CERTAIN
    assert failure.reserved is not None
    wasted = failure.total is not None and failure.reserved.size >= _WASTED * failure.total.size
    return Confidence.LIKELY if wasted else Confidence.POSSIBLE


def _is_expandable(window: Window) -> bool:
    """The setting that closes gaps is on already. The allocator's own advice to set it is no
    setting."""
    return any(
        "expandable_segments:true" in fact.raw.lower().replace(" ", "")
        or ("expandable" in fact.key.lower() and fact.raw.lower() in ("true", "1", "on", "yes"))
        for fact in facts_named(window, r"alloc|expandable|conf|env")
    )


def _against(window: Window, failure: Failure, *, is_serving: bool) -> tuple[str, ...]:
    against = []
    if _is_expandable(window):
        against.append("expandable segments are on already, which closes such gaps")
    if not is_serving:
        against.append(
            f"it failed while {failure.stage.value}: gaps of that size are usual there, and the "
            "stage's own rule says what to change"
        )
    else:
        against.append("not a start: the engine was serving")
        usage = window.find(Signal.KV_USAGE)
        if usage is not None:
            against.append(f"not oom.decode_growth: the KV cache stood at {usage.last.raw}")
    return tuple(against)


FRAGMENTATION = Rule(
    id="oom-fragmentation",
    mechanism=Mechanism.OOM_FRAGMENTATION,
    judge=_judge,
    needs=("reserved and allocated bytes at the failure",),
    told_apart=(
        "From oom.prefill_transient and oom.decode_growth by unallocated bytes that are at least "
        "what was wanted; from oom.graph_capture, whose pools cannot share, by the engine serving."
    ),
    remedy=(
        "Expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), or a small buffer "
        "below the memory budget."
    ),
    hides="A buffer moves the failure to a larger request; a restart closes the gaps for a while.",
    explains=frozenset({Mechanism.OOM_PREFILL_TRANSIENT, Mechanism.OOM_DECODE_GROWTH}),
)

"""oom.fragmentation: the allocator held enough, and not in one piece."""

import re

from controlplane.diagnosis.citing import changed, course
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.rules.memory.ledger import asked_for, facts_named, known
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.lines import PRIVATE_POOLS
from dataplane.engine_metrics.signal import Signal

_WASTED = 0.05
"""Of the device. A start that leaves more than this in gaps is fragmented, whatever its stage,
where that is many times what was wanted."""
_MANY_TIMES = 4.0
_MUCH = 0.015
"""Of the device: more than allocators hold unused between the steps of a start."""
_CURED = r"boots?|starts?|works?|runs?|fixe[sd]|helps?|ok|serves|passes|gone|stable"
_TOPICS = r"alloc|expandable|segment|split|retry|util|fraction|frag|reserved|conf"


def _judge(window: Window) -> Verdict | None:
    failure = find_failure(window)
    gaps = None if failure is None else _gaps(window, failure)
    if failure is None or gaps is None:
        return None
    courses = [window.find(signal) for signal in (Signal.KV_USAGE, Signal.RUNNING, Signal.WAITING)]
    is_serving = failure.stage.is_serving or failure.stage is Stage.UNKNOWN
    return Verdict(
        confidence=_confidence(window, failure, is_serving=is_serving),
        evidence=(
            gaps,
            *asked_for(failure),
            *_pools(failure),
            *(changed(window, change) for change in window.changes),
            *(course(series) for series in courses if series is not None),
            *known(window, _TOPICS),
        ),
        against=_against(window, failure, is_serving=is_serving),
        needs=()
        if is_serving or _is_cured(window)
        else ("the allocator's snapshot at the failure",),
        detail="allocator gaps",
    )


def _gaps(window: Window, failure: Failure) -> str | None:
    """What the allocator holds and nobody uses would have been enough; None where it would not."""
    if failure.wanted is None or failure.reserved is None:
        return None
    if failure.fits_in_gaps:
        return f"{failure.reserved.raw} reserved but unallocated >= {failure.wanted.raw} wanted"
    if failure.free is not None and _fits_together(failure) and _is_cured(window):
        return (
            f"{failure.reserved.raw} reserved but unallocated and {failure.free.raw} free, "
            f"together more than {failure.wanted.raw} wanted"
        )
    return None


def _fits_together(failure: Failure) -> bool:
    """Gaps and what the device has left would do in one piece, and neither does alone."""
    if failure.wanted is None or failure.reserved is None or failure.free is None:
        return False
    wanted = failure.wanted.size
    return failure.free.size < wanted <= failure.free.size + failure.reserved.size


def _pools(failure: Failure) -> tuple[str, ...]:
    found = re.search(PRIVATE_POOLS, failure.line)
    return (f"graphs hold {found[1]} in private pools",) if found else ()


def _confidence(window: Window, failure: Failure, *, is_serving: bool) -> Confidence:
    if _is_expandable(window) and not _is_cured(window):
        return Confidence.POSSIBLE
    if _is_cured(window):
        return Confidence.CERTAIN
    if is_serving:
        is_known = failure.stage is not Stage.UNKNOWN
        return Confidence.CERTAIN if is_known else _where_unknown(failure)
    return Confidence.LIKELY if _is_wasteful(failure) else Confidence.POSSIBLE


def _where_unknown(failure: Failure) -> Confidence:
    """Nothing says what it was doing: graphs, for one, leave gaps that are no others' to use."""
    if failure.reserved is None or failure.total is None:
        return Confidence.POSSIBLE
    is_much = failure.reserved.size >= _MUCH * failure.total.size
    return Confidence.LIKELY if is_much else Confidence.POSSIBLE


def _is_wasteful(failure: Failure) -> bool:
    """Far more lies in gaps than any stage leaves there."""
    if failure.reserved is None or failure.wanted is None or failure.total is None:
        return False
    return (
        failure.reserved.size >= _WASTED * failure.total.size
        and failure.reserved.size >= _MANY_TIMES * failure.wanted.size
    )


def _is_cured(window: Window) -> bool:
    """The same start with segments that expand came up."""
    return any(
        re.search(_CURED, fact.raw, re.IGNORECASE) and not re.search(r"\bno[t ]|fail", fact.raw)
        for fact in facts_named(window, r"expandable|max_split")
    )


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
    if not is_serving and not (_is_cured(window) or _is_wasteful(failure)):
        against.append(
            f"it failed while {failure.stage.value}: gaps of that size are usual there, and the "
            "stage's own rule says what to change"
        )
    elif not is_serving:
        against.append(
            f"not what {failure.stage.value} takes: it takes the same where gaps are closed"
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
    explains=frozenset(
        {
            Mechanism.OOM_LOAD,
            Mechanism.OOM_PROFILE,
            Mechanism.OOM_GRAPH_CAPTURE,
            Mechanism.OOM_WARMUP,
            Mechanism.OOM_PREFILL_TRANSIENT,
            Mechanism.OOM_DECODE_GROWTH,
        }
    ),
)

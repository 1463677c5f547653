"""oom.profile: the run that measures the largest step, or the KV cache sized by it, did not fit."""

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
from controlplane.diagnosis.rules.memory.on_cpu import cpu_failure
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.rules.memory.told_failure import told_failures
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_TOPICS = (
    r"util|fraction|total|seq|seat|batch|token|model_len|context|ctx|image|limit|vram|gpu.*mem|card|"
    r"parallel|slots|mm_|multimodal"
)


def _judge(window: Window) -> Verdict | None:
    on_cpu = cpu_failure(window)
    if on_cpu is not None and on_cpu.stage is Stage.PROFILE:
        return Verdict(
            confidence=Confidence.CERTAIN,
            evidence=(
                f"{on_cpu.wanted}: {shortened(on_cpu.event.line)}",
                "its traceback is in the measuring of a step",
            ),
            against=("not oom.host_memory: on the CPU the host's memory is the device's",),
            detail="profile workspace",
        )
    failure = find_failure(window)
    if failure is None:
        return None
    if failure.stage is Stage.PROFILE:
        return _workspace(window, failure)
    if failure.stage is Stage.KV_CACHE:
        return _cache(window, failure)
    return None


def _workspace(window: Window, failure: Failure) -> Verdict:
    evidence = [*asked_for(failure), *placed(window, failure)]
    if failure.stage_line:
        evidence.append(f"the last it did: {shortened(failure.stage_line)}")
    begun = before(window, failure, LogKind.PROFILING)
    if begun and begun[-1].line != failure.stage_line:
        evidence.append(f"before it: {shortened(begun[-1].line)}")
    if not before(window, failure, LogKind.KV_CACHE_SIZED):
        evidence.append("no KV cache line stands before the failure")
    return Verdict(
        confidence=Confidence.CERTAIN if failure.is_named else Confidence.LIKELY,
        evidence=(*evidence, *known(window, _TOPICS)),
        against=(
            "not oom.load: the weights were in",
            "not prefill or decode: no request had been taken",
        ),
        needs=() if failure.is_named else ("the traceback of the failure",),
        detail="profile workspace",
    )


def _cache(window: Window, failure: Failure) -> Verdict:
    walls = told_failures(window) if failure.is_refusal else ()
    if walls:
        return _between_walls(failure, walls[0].line)
    evidence = [*asked_for(failure), *placed(window, failure)]
    if failure.stage_line:
        evidence.append(f"while the KV cache was placed: {shortened(failure.stage_line)}")
    return Verdict(
        confidence=Confidence.LIKELY,
        evidence=(*evidence, *known(window, _TOPICS)),
        against=(
            "not oom.load: the weights were in",
            "not graphs or a request: neither had begun",
        ),
        needs=("device memory in use by process",),
        detail="KV cache",
        remedy=(
            "A shorter context or fewer slots, a KV cache of fewer bits, or a larger share for it "
            "after weights and workspace are taken off."
        ),
    )


def _between_walls(failure: Failure, other: str) -> Verdict:
    """With one setting it refuses for want of a cache, with another the device runs out: one of
    the two says what is too large, and it is not this one."""
    return Verdict(
        confidence=Confidence.POSSIBLE,
        evidence=(
            f"it refuses: {shortened(failure.line)}",
            f"with another setting: {shortened(other)}",
        ),
        against=("two settings end in two failures: the stage of the second is not known",),
        needs=(
            "the log's lines before the device ran out of memory",
            "memory that is free after the weights are in",
            "size of the allocation that failed, and what was free",
            "other processes on the device before the start",
        ),
        detail="KV cache",
    )


PROFILE = Rule(
    id="oom-profile",
    mechanism=Mechanism.OOM_PROFILE,
    judge=_judge,
    needs=("the engine's log from its start",),
    told_apart=(
        "From oom.load by the line that weights are in; from oom.graph_capture and oom.warmup by "
        "the missing line of a KV cache; from oom.prefill_transient by the engine never having "
        "served."
    ),
    remedy=(
        "Fewer seats, a smaller token budget of a step, or lower limits of images: the profile is "
        "as large as the largest step; a shorter context or another memory fraction does not "
        "shrink it."
    ),
    hides=(
        "A smaller step budget slows prefill for everybody, and fewer seats look like "
        "batch.underfilled later."
    ),
)

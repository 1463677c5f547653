"""oom.load: weights did not fit onto the device."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.amount import amounts_in, written
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure, listed_processes
from controlplane.diagnosis.rules.memory.held_by_others import told_unused_before
from controlplane.diagnosis.rules.memory.ledger import (
    asked_for,
    before,
    facts_named,
    known,
    shortened,
)
from controlplane.diagnosis.rules.memory.on_cpu import cpu_failure
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.adapters import ADAPTER
from controlplane.diagnosis.words.lines import PRIVATE_POOLS

_MODEL_SIZE = r"model size *=|weights? (size|take)|total size of .*weights|mem usage=|\bMiB free\b"
_MOST_SIZES = 4
_TOPICS = r"vram|gpu|mem|weight|layer|card|quant|dtype|tensor|tp$|size|util|model|checkpoint|param"


def _judge(window: Window) -> Verdict | None:
    on_cpu = cpu_failure(window)
    if on_cpu is not None and on_cpu.stage is Stage.LOAD:
        return Verdict(
            confidence=Confidence.CERTAIN,
            evidence=(
                f"{on_cpu.wanted}: {shortened(on_cpu.event.line)}",
                "its traceback is in the loading of weights",
            ),
            against=("not oom.host_memory: on the CPU the host's memory is the device's",),
            detail="weights",
        )
    failure = find_failure(window)
    if failure is None:
        return None
    if failure.stage in (Stage.LOAD, Stage.BEFORE_LOAD):
        return _while_loading(window, failure)
    if failure.stage is Stage.KV_CACHE or failure.is_refusal:
        return _no_room_left(window)
    if failure.stage is Stage.UNKNOWN:
        return _stage_unknown(window, failure)
    return None


def _stage_unknown(window: Window, failure: Failure) -> Verdict:
    """Weights come first, and nothing says that it came further."""
    processes = listed_processes(failure.line)
    pools = re.search(PRIVATE_POOLS, failure.line)
    return Verdict(
        confidence=Confidence.POSSIBLE,
        evidence=(*asked_for(failure), *known(window, _TOPICS)),
        against=(
            "nothing says in which stage it was: weights, profile, graphs or serving",
            *((f"{pools[1]} in private pools: graphs had begun at least",) if pools else ()),
        ),
        needs=(
            "the log around the failure and its traceback",
            "prompt lengths and prompt logprobs of the running requests",
            *(("whether the process that is listed is this engine",) if processes else ()),
            *(("number and rank of the adapters",) if _has_adapters(window) else ()),
        ),
        detail="stage unknown",
    )


def _has_adapters(window: Window) -> bool:
    return bool(facts_named(window, ADAPTER)) or bool(window.lines_with(r"\blora\b"))


def _while_loading(window: Window, failure: Failure) -> Verdict:
    loaded = before(window, failure, LogKind.WEIGHTS_LOADED)
    is_seen = failure.is_named or failure.stage is Stage.LOAD
    evidence = [*asked_for(failure)]
    if failure.stage_line:
        evidence.append(f"while weights were loaded: {shortened(failure.stage_line)}")
    if not loaded:
        evidence.append("no line says that weights are in, and none of a KV cache")
    evidence += [shortened(line) for line in _sizes(window)]
    return Verdict(
        confidence=Confidence.CERTAIN if is_seen else Confidence.LIKELY,
        evidence=(*evidence, *known(window, _TOPICS)),
        against=(
            *told_unused_before(window),
            "not a profile, graphs or a request: none of them had begun",
        ),
        needs=()
        if told_unused_before(window)
        else ("device memory in use with this engine stopped",),
        detail="weights",
    )


def _sizes(window: Window) -> list[str]:
    """Lines with the sizes of model and devices, one for devices that are alike."""
    by_kind = {
        re.sub(r"(CUDA|ROCm|Vulkan|SYCL|TP|rank[ =]?)\d+", r"\1", line): line
        for line in reversed(window.lines_with(_MODEL_SIZE))
        if amounts_in(line)
    }
    return list(reversed(by_kind.values()))[:_MOST_SIZES]


def _no_room_left(window: Window) -> Verdict | None:
    """They are in, and are more than the engine's whole budget: nothing is left for a cache."""
    split = window.last_event(LogKind.MEMORY_SPLIT, LogKind.WEIGHTS_LOADED)
    if split is None or not {"weights_bytes", "bytes"} & split.fields.keys():
        return None
    weights = split.fields.get("weights_bytes", split.fields.get("bytes", 0.0))
    total = split.fields.get("total_bytes") or _total_told(window)
    share = next(
        (
            fact
            for fact in facts_named(window, r"mem.*(util|fraction)|(util|fraction).*mem")
            if fact.value is not None and 0 < fact.value <= 1
        ),
        None,
    )
    if total is None or share is None or share.value is None or weights < share.value * total:
        return None
    return Verdict(
        confidence=Confidence.LIKELY,
        evidence=(
            f"weights take {written(weights)}; the engine may use {says(share)} of "
            f"{written(total)} = {written(share.value * total)}",
            shortened(split.line),
        ),
        against=("not the profile: weights alone are above the budget",),
        detail="weights",
        remedy="A smaller or quantized model, more devices, or a larger fraction of this one.",
    )


def _total_told(window: Window) -> float | None:
    found = facts_named(window, r"(vram|gpu|device|card).*total|total.*(vram|gpu|device)")
    return next((fact.value for fact in found if fact.value is not None), None)


LOAD = Rule(
    id="oom-load",
    mechanism=Mechanism.OOM_LOAD,
    judge=_judge,
    needs=("the engine's log from its start",),
    told_apart=(
        "From oom.foreign_memory by a device that was empty before; from oom.profile and later "
        "stages by the missing line that weights are in."
    ),
    remedy=(
        "Fewer weights on each device: more devices, fewer layers offloaded, or a smaller "
        "quantization; no setting of context, seats or KV cache helps."
    ),
    hides=(
        "Offloading layers to the host makes it start and every token slow; a quantization may "
        "cost quality that no metric here shows."
    ),
)

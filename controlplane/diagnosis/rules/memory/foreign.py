"""oom.foreign_memory: before this engine took its share, others had part of the device."""

import re
from dataclasses import replace

from controlplane.diagnosis.citing import changed
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.amount import amounts_in, as_written, written
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.rules.memory.held_by_others import DRIVERS_OWN, held_by_others
from controlplane.diagnosis.rules.memory.ledger import asked_for, known, shortened
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_TOPICS = r"smi|vram|gpu.*(mem|used)|previous|other|weights|process|card|holds|total|model|pid|kv"
_WHO = ("processes that hold the device's memory", "device memory in use with this engine stopped")
_SAID_BY_ENGINE = (
    r"Error in memory profiling\. Initial free memory|may be occupied by other processes|"
    r"memory .*not properly cleaned up before initializing|"
    r"other processes sharing the same container release"
)


def _judge(window: Window) -> Verdict | None:
    refusal = window.last_event(LogKind.FREE_MEMORY_TOO_LITTLE)
    if refusal is not None:
        return _got_over(window, refusal, _refused(window, refusal))
    said = window.lines_with(_SAID_BY_ENGINE)
    if said:
        return _said(window, said[-1])
    failure = find_failure(window)
    return None if failure is None else _beside_others(window, failure)


def _got_over(window: Window, refusal: LogEvent, verdict: Verdict) -> Verdict:
    """No surer than POSSIBLE where a later start came up: then it is over."""
    ready = window.last_event(LogKind.READY)
    if ready is None or ready.index < refusal.index:
        return verdict
    over = f"it is over: a later start came up, {shortened(ready.line)}"
    return replace(
        verdict,
        confidence=Confidence.POSSIBLE,
        against=(over, *verdict.against),
        needs=verdict.needs or _WHO,
    )


def _refused(window: Window, event: LogEvent) -> Verdict:
    """It measured what is free before it took anything, and that is less than its share."""
    free, total, wanted = (
        event.fields.get(name) for name in ("free_bytes", "total_bytes", "wanted_bytes")
    )
    if free is None or total is None or wanted is None:
        return Verdict(
            confidence=Confidence.LIKELY,
            evidence=(f"the engine refused before it loaded anything: {shortened(event.line)}",),
            needs=_WHO,
        )
    used = total - free
    evidence = (
        *_less_than_wanted(event, free, total, wanted),
        *_nothing_loaded(window, event),
        *known(window, _TOPICS),
    )
    return _of_others(used, evidence) if used > DRIVERS_OWN else _of_the_driver(used, evidence)


def _less_than_wanted(event: LogEvent, free: float, total: float, wanted: float) -> tuple[str, str]:
    """What was free and what was in use, in bytes, written as the engine wrote them."""
    texts = (event.line, *_with_unit(event.line))
    share = event.fields.get("share")
    budget = f"{as_written(wanted, texts).raw}" + (
        "" if share is None else f" = {share:g} x {as_written(total, texts).raw}"
    )
    return (
        f"free {as_written(free, texts).raw} of {as_written(total, texts).raw} "
        f"is less than the wanted {budget}",
        f"{written(total - free)} were already in use before this engine loaded weights",
    )


def _of_others(used: float, evidence: tuple[str, ...]) -> Verdict:
    return Verdict(
        confidence=Confidence.CERTAIN,
        evidence=evidence,
        against=(
            "not the weights, a profile or graphs: the check stands before all of them",
            f"not the driver's own: that is about half a GiB, and {written(used)} are gone",
        ),
        detail="foreign",
    )


def _of_the_driver(used: float, evidence: tuple[str, ...]) -> Verdict:
    return Verdict(
        confidence=Confidence.POSSIBLE,
        evidence=evidence,
        against=(
            f"{written(used)} is hardly more than driver and context take of an empty card: the "
            "fraction asked for may leave no room for those",
        ),
        needs=_WHO,
        detail="foreign",
        remedy="Ask for a smaller fraction of the device, after a look at who else is on it.",
    )


def _with_unit(line: str) -> tuple[str, ...]:
    """`67.24/79.25 GiB` says the unit once for both."""
    return tuple(
        f"{first} {unit}" for first, unit in re.findall(r"([\d.]+)/[\d.]+ ?([KMGT]i?B)", line)
    )


def _nothing_loaded(window: Window, event: LogEvent) -> tuple[str, ...]:
    loaded = [
        other
        for other in window.events_of(LogKind.WEIGHTS_LOADING, LogKind.WEIGHTS_LOADED)
        if other.index < event.index
    ]
    return () if loaded else ("no weight-loading line stands before it",)


def _said(window: Window, line: str) -> Verdict:
    figures = ", ".join(amount.raw for amount in amounts_in(line))
    return Verdict(
        confidence=Confidence.LIKELY,
        evidence=(
            "the engine measured memory that others took or gave back: "
            f"{shortened(line)}" + (f" ({figures})" if figures else ""),
            *known(window, _TOPICS),
        ),
        against=("not this engine's own: it compares two readings of the device around its own",),
        needs=_WHO,
        detail="foreign",
        remedy=(
            "Start engines that share a device one after the other, and end what is left over."
        ),
    )


def _beside_others(window: Window, failure: Failure) -> Verdict | None:
    """Memory ran out later on, and what others hold would have been enough."""
    found = held_by_others(window, failure)
    if found is None:
        return None
    others, how, confidence = found
    shortfall = failure.shortfall
    if shortfall is not None and others < shortfall:
        return None
    if shortfall is not None and shortfall <= 0:
        confidence = Confidence.POSSIBLE
    return Verdict(
        confidence=confidence,
        evidence=(
            how,
            *asked_for(failure),
            *known(window, _TOPICS),
            *(changed(window, change) for change in window.changes),
        ),
        against=(
            "not this engine's own budget: without the others what it wanted would have fitted",
        ),
        needs=() if confidence is Confidence.CERTAIN else _WHO,
        detail="foreign",
    )


FOREIGN_MEMORY = Rule(
    id="oom-foreign-memory",
    mechanism=Mechanism.OOM_FOREIGN_MEMORY,
    judge=_judge,
    needs=("the engine's log from its start", "device memory in use by process"),
    told_apart=(
        "From oom.load and oom.profile by what was in use before this engine took a byte: more "
        "than driver and context need. From a fraction that is simply too large by the same figure."
    ),
    remedy=(
        "Find and end the other or leftover process, or split the device's fractions on purpose."
    ),
    hides=(
        "A smaller fraction makes it start, leaves the leftover process where it is, and takes the "
        "missing memory from the KV cache; ending a process destroys the proof of who it was."
    ),
    explains=frozenset(
        {
            Mechanism.OOM_LOAD,
            Mechanism.OOM_PROFILE,
            Mechanism.OOM_GRAPH_CAPTURE,
            Mechanism.OOM_WARMUP,
            Mechanism.OOM_PREFILL_TRANSIENT,
            Mechanism.OOM_DECODE_GROWTH,
            Mechanism.OOM_FRAGMENTATION,
        }
    ),
)

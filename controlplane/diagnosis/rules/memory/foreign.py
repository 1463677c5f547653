"""oom.foreign_memory: before this engine took its share, others had part of the device."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.amount import GIB, MIB, amounts_in, as_written, written
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure, listed_processes
from controlplane.diagnosis.rules.memory.ledger import asked_for, facts_named, known, shortened
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_DRIVERS_OWN = 0.75 * GIB
"""What the driver and a first context take of a card that nobody uses: 0.3 to 0.6 GiB by
generation."""
_CONTEXTS_OWN = 2.0 * GIB
"""What an engine's own contexts, collectives and kernels may take before its first weight."""
_SHARE_OF_OTHERS = 0.05
"""Of the card. What is found by subtraction holds contexts, collectives and rounding as well."""
_TOPICS = r"smi|vram|gpu.*(mem|used)|previous|other|weights|process|card|holds|total|model"
_WHO = ("processes that hold the device's memory", "device memory in use with this engine stopped")
_SAID_BY_ENGINE = (
    r"Error in memory profiling\. Initial free memory|may be occupied by other processes|"
    r"memory .*not properly cleaned up before initializing|"
    r"other processes sharing the same container release"
)


def _judge(window: Window) -> Verdict | None:
    refusal = window.last_event(LogKind.FREE_MEMORY_TOO_LITTLE)
    if refusal is not None:
        return _refused(window, refusal)
    said = window.lines_with(_SAID_BY_ENGINE)
    if said:
        return _said(window, said[-1])
    failure = find_failure(window)
    return None if failure is None else _beside_others(window, failure)


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
    texts = (event.line, *_with_unit(event.line))
    used = total - free
    share = event.fields.get("share")
    budget = f"{as_written(wanted, texts).raw}" + (
        "" if share is None else f" = {share:g} x {as_written(total, texts).raw}"
    )
    evidence = (
        f"free {as_written(free, texts).raw} of {as_written(total, texts).raw} "
        f"is less than the wanted {budget}",
        f"{written(used)} were already in use before this engine loaded weights",
        *_nothing_loaded(window, event),
        *known(window, _TOPICS),
    )
    if used > _DRIVERS_OWN:
        return Verdict(
            confidence=Confidence.CERTAIN,
            evidence=evidence,
            against=(
                "not the weights, a profile or graphs: the check stands before all of them",
                f"not the driver's own: that is about half a GiB, and {written(used)} are gone",
            ),
            detail="foreign",
        )
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
    found = (
        _listed(failure)
        or _told(window, failure)
        or _subtracted(failure)
        or _before_weights(window, failure)
    )
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
            *(f"{change.at:g} s: {change.what}" for change in window.changes),
        ),
        against=(
            "not this engine's own budget: without the others what it wanted would have fitted",
        ),
        needs=() if confidence is Confidence.CERTAIN else _WHO,
        detail="foreign",
    )


def _listed(failure: Failure) -> tuple[float, str, Confidence] | None:
    """The allocator's message lists the processes on the device."""
    processes = listed_processes(failure.line)
    if not processes:
        return None
    own = sum(part.size for part in (failure.allocated, failure.reserved) if part is not None)
    others = list(processes)
    if failure.process is None or failure.process in others:
        # Without a line for itself the failing process is in the list: it holds what it allocated.
        mine = min(
            (process for process in processes if process.size >= 0.98 * own),
            key=lambda process: process.size,
            default=None,
        )
        if mine is None:
            return None
        others.remove(mine)
    size = sum(process.size for process in others)
    if size <= _DRIVERS_OWN:
        return None
    names = ", ".join(process.raw for process in others)
    return size, f"other processes on the device hold {names}", Confidence.CERTAIN


def _before_weights(window: Window, failure: Failure) -> tuple[float, str, Confidence] | None:
    """The engine says what was free before its first weight, and the card is larger than that."""
    if failure.stage.is_serving:
        return None
    free, line = _free_at_first(window)
    total = failure.total.size if failure.total is not None else _card(window)
    if free is None or total is None:
        return None
    others = total - free
    if others <= max(_CONTEXTS_OWN, _SHARE_OF_OTHERS * total):
        return None
    if failure.wanted is not None and failure.wanted.size > total:
        return None
    how = (
        f"{as_written(free, (line,)).raw} were free before the first weight, of {written(total)}: "
        f"{written(others)} were in use by others"
    )
    return others, how, Confidence.LIKELY


def _free_at_first(window: Window) -> tuple[float | None, str]:
    for event in window.events_of(LogKind.WEIGHTS_LOADING):
        if "free_bytes" in event.fields:
            return event.fields["free_bytes"], event.line
    for line in window.lines_with(r"using device \S+ .* - [\d.]+ MiB free"):
        amounts = amounts_in(line)
        return amounts[-1].size, line
    return None, ""


def _card(window: Window) -> float | None:
    """The size of one device, as it was told."""
    return next(
        (
            fact.value
            for fact in window.facts
            if fact.unit is Unit.BYTES
            and fact.value
            and re.search(
                r"(vram|gpu|device|card).*total|total.*(vram|gpu|device)|^(card|gpu|vram|device)"
                r"(_?(size|capacity|mem\w*))?_?(mib|gib|mb|gb)$",
                fact.key,
                re.IGNORECASE,
            )
        ),
        None,
    )


_USED_BEFORE = re.compile(
    r"(vram|gpu|device|cuda|smi).*(before|at_start|prior|other|foreign|neighbou?r)|"
    r"(before|other|foreign|neighbou?r|previous|leftover|zombie).*(vram|gpu|device|mem|mib|gib|mb)|"
    r"(holds|holding|held_by|used_by|occup|squat|hog|taken_by)",
    re.IGNORECASE,
)
_OWN = re.compile(r"free|avail|total|limit|wanted|\bkv|cache|weights|own|self|this|engine", re.I)
"""Keys that hold such words are not about what others hold, but for those that say so."""
_OTHERS = re.compile(r"other|foreign|neighbou?r|second|another|leftover|zombie", re.I)


def _told(window: Window, failure: Failure) -> tuple[float, str, Confidence] | None:
    """Somebody read the device's memory before the start."""
    if failure.stage.is_serving:
        return None
    found = [
        fact
        for fact in window.facts
        if fact.value is not None
        and _USED_BEFORE.search(fact.key)
        and (_OTHERS.search(fact.key) or not _OWN.search(fact.key))
    ]
    most = max(found, key=lambda fact: _bytes(fact), default=None)
    if most is None or _bytes(most) <= _DRIVERS_OWN:
        return None
    return _bytes(most), f"in use by others: {says(most)}", Confidence.LIKELY


def _bytes(fact: Fact) -> float:
    value = fact.value or 0.0
    return value if fact.unit is not None else value * MIB


def _subtracted(failure: Failure) -> tuple[float, str, Confidence] | None:
    """What is neither free nor this process's."""
    if failure.total is None or failure.free is None or failure.process is None:
        return None
    others = failure.total.size - failure.free.size - failure.process.size
    if others <= max(GIB, _SHARE_OF_OTHERS * failure.total.size):
        return None
    how = (
        f"of {failure.total.raw} this process has {failure.process.raw} and {failure.free.raw} are "
        f"free: {written(others)} are somebody else's"
    )
    return others, how, Confidence.LIKELY


def told_unused_before(window: Window) -> tuple[str, ...]:
    """Facts that say how little others had: against this mechanism, for those of the engine."""
    found = facts_named(window, _USED_BEFORE.pattern)
    return tuple(
        f"not foreign memory: {says(fact)}"
        for fact in found
        if fact.value is not None and _bytes(fact) <= _DRIVERS_OWN
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

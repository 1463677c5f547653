"""How much of a device others than the engine hold, by whatever shows it."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.memory.amount import GIB, MIB, amounts_in, as_written, written
from controlplane.diagnosis.rules.memory.failure import Failure, listed_processes, own_pids
from controlplane.diagnosis.rules.memory.ledger import facts_named, shortened
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

DRIVERS_OWN = 0.75 * GIB
"""What the driver and a first context take of a card that nobody uses: 0.3 to 0.6 GiB by
generation."""
_CONTEXTS_OWN = 2.0 * GIB
"""What an engine's own contexts, collectives and kernels may take before its first weight."""
_SHARE_OF_OTHERS = 0.05
"""Of the card. What is found by subtraction holds contexts, collectives and rounding as well."""

Held = tuple[float, str, Confidence]
"""Bytes, how that is known, and how sure."""


def held_by_others(window: Window, failure: Failure) -> Held | None:
    """As far as it was there before this engine's own; None where nothing shows it."""
    return (
        _listed(window, failure)
        or _shown(window, failure)
        or _told(window, failure)
        or _subtracted(failure)
        or _before_weights(window, failure)
    )


def _listed(window: Window, failure: Failure) -> Held | None:
    """The allocator's message lists the processes on the device."""
    processes = listed_processes(failure.line, besides=own_pids(window))
    if not processes or _was_empty(window):
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
    if size <= DRIVERS_OWN:
        return None
    names = ", ".join(process.raw for process in others)
    is_alone = own > 0 or not (failure.ranks or window.lines_with(_RANKS))
    surest = Confidence.CERTAIN if _are_named(window) else Confidence.LIKELY
    confidence = surest if is_alone else Confidence.POSSIBLE
    return size, f"other processes on the device hold {names}", confidence


def _are_named(window: Window) -> bool:
    """Somebody says whose they are, or saw them before. Engines have helpers of their own on a
    device: encoders, ranks of data parallelism, caches."""
    shown = bool(window.events_of(LogKind.DEVICE_PROCESS))
    return shown or any(
        _USED_BEFORE.search(fact.key) or _OTHERS.search(f"{fact.key} {fact.raw}")
        for fact in window.facts
    )


_RANKS = r"\bRANK \d|tensor_parallel_size=[2-9]|tp_size=[2-9]|\bTP[1-9]\b"
"""An engine of several ranks has several processes, and each may be on any of its devices."""


def _was_empty(window: Window) -> bool:
    """Somebody looked at the device before the start, and nobody had it: who holds it at the
    failure is of this engine."""
    return any(
        fact.value is not None
        and _bytes(fact) <= DRIVERS_OWN
        and re.search(r"before|at_start|prior", fact.key, re.IGNORECASE)
        and re.search(r"gpu|vram|device|card|smi", fact.key, re.IGNORECASE)
        and not re.search(r"free|avail|total", fact.key, re.IGNORECASE)
        and fact.unit is Unit.BYTES
        for fact in window.facts
    )


def _shown(window: Window, failure: Failure) -> Held | None:
    """A table of nvidia-smi above the engine's first line shows who has the device."""
    began = window.events_of(LogKind.STARTING, LogKind.WEIGHTS_LOADING)
    first = began[0].index if began else failure.index
    shown = [
        event
        for event in window.events_of(LogKind.DEVICE_PROCESS)
        if event.index < first and event.fields.get("used_bytes", 0.0) > DRIVERS_OWN
    ]
    if not shown or failure.stage.is_serving:
        return None
    by_device: dict[float, float] = {}
    for event in shown:
        device = event.fields.get("device", 0.0)
        by_device[device] = by_device.get(device, 0.0) + event.fields["used_bytes"]
    line = shortened(shown[0].line)
    return max(by_device.values()), f"in use by others before the start: {line}", Confidence.CERTAIN


def _before_weights(window: Window, failure: Failure) -> Held | None:
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


def _told(window: Window, failure: Failure) -> Held | None:
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
    if most is None or _bytes(most) <= DRIVERS_OWN:
        return None
    return _bytes(most), f"in use by others: {says(most)}", Confidence.LIKELY


def _bytes(fact: Fact) -> float:
    value = fact.value or 0.0
    return value if fact.unit is not None else value * MIB


def _subtracted(failure: Failure) -> Held | None:
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
        if fact.value is not None and _bytes(fact) <= DRIVERS_OWN
    )

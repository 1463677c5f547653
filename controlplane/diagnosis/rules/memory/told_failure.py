"""Memory that ran out, as somebody wrote it down, where no log says so."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.limits import DEVICE_MEMORY
from dataplane.engine_metrics.signal import Unit

_SAID = re.compile(
    r"\b(cuda|hip|gpu|npu|xpu|device|vram|decode|prefill|torch)\b.{0,20}\b(out of memory|oom)\b|"
    r"\b(out of memory|oom)\b.{0,20}\b(gpu|device|card|rank)\b|outofmemoryerror",
    re.IGNORECASE,
)
_NOT_DEVICE = re.compile(
    r"kill|host|cgroup|container|exit|node|ray\.exceptions|ago\b|yesterday|\b(none|no|never)\b",
    re.IGNORECASE,
)
_NOT_NOW = r"\b(before|last|previous|earlier|count|total|since|expected|without|old)\b"
_OOM_KEY = r"\b(oom|out of memory)\b"
_AMOUNTS = (
    ("wanted_bytes", r"\b(wanted|tried|requested|asked|needed|alloc(ation)? (size|request))\b"),
    ("reserved_bytes", r"\b(unallocated|reserved (but )?un\w+|gaps?|fragmented)\b"),
    ("free_bytes", r"\b(gpu|device|card|vram)\b.*\bfree\b|\bfree\b.*\b(gpu|device|card|vram)\b"),
    ("total_bytes", DEVICE_MEMORY),
)


def told_failures(window: Window) -> tuple[LogEvent, ...]:
    """As events without a place in a log, the text or the figures as their line."""
    found = [
        event
        for fact in window.facts
        if fact.value is None
        and fact.part is None
        and not re.search(_NOT_NOW, plain(fact.key))
        and (event := _read(window, fact)) is not None
    ]
    return tuple(found) or _figures(window)


def _read(window: Window, fact: Fact) -> LogEvent | None:
    if _NOT_DEVICE.search(f"{plain(fact.key)} {fact.raw}"):
        return None
    for event in window.told_lines:
        if event.kind is LogKind.OUT_OF_MEMORY and (event.line, event.at) == (fact.raw, fact.at):
            return event
    if _SAID.search(fact.raw):
        return LogEvent(kind=LogKind.OUT_OF_MEMORY, index=_NO_LINE, line=fact.raw, at=fact.at)
    return None


def _figures(window: Window) -> tuple[LogEvent, ...]:
    """What was wanted when it ran out, told as a figure: `oom_wanted_mib: 900`."""
    wanted = next(
        (
            fact
            for fact in window.facts
            if fact.unit is Unit.BYTES
            and fact.value
            and re.search(_OOM_KEY, plain(fact.key))
            and re.search(_AMOUNTS[0][1], plain(fact.key))
        ),
        None,
    )
    if wanted is None:
        return ()
    fields = {
        name: fact.value
        for name, words in reversed(_AMOUNTS)
        for fact in window.facts
        if fact.unit is Unit.BYTES and fact.value is not None and re.search(words, plain(fact.key))
    }
    line = f"{wanted.key} {wanted.raw}"
    return (
        LogEvent(
            kind=LogKind.OUT_OF_MEMORY, index=_NO_LINE, line=line, at=wanted.at, fields=fields
        ),
    )


_NO_LINE = -1

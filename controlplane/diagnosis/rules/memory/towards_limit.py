"""Host memory on its way to the limit at which a process was killed before.

A container that is killed every other day is read between two kills: what killed the last process
is told of the present one, whose counters go on. That it comes again shows in the memory.
"""

import re
from collections.abc import Iterator

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_WHOSE = r"pod|container|cgroup|process|host|worker|scheduler|engine|server|tokenizer"
_HELD = re.compile(
    r"\b(rss|resident|working set|pss|anon)\b"
    rf"|\b({_WHOSE})\b.*\b(memory|mem|ram)\b|\b(memory|mem|ram)\b.*\b({_WHOSE})\b"
)
_NOT_HELD = re.compile(
    r"\b(gpu|npu|xpu|vram|hbm|device|kv|limit|max|total|request(s|ed)?|free|available|budget"
    r"|before|baseline|peak)\b"
)
_LIMIT = re.compile(
    rf"^(?=.*\b(limit|max|quota)\b)(?=.*\b(memory|mem|ram|rss|{_WHOSE})\b)"
    r"(?!.*\b(gpu|npu|xpu|vram|hbm|device|kv|soft)\b)"
)
_NEAR = 0.85
"""Of the limit: what is left goes in a part of the time in which so much came."""
_GROWN = 1.25
"""Times what it was: more than a host's caches of files and prompts vary by."""


def towards_limit(window: Window) -> tuple[str, ...]:
    """What grew, and towards which limit; nothing where nothing comes near it by growing."""
    limit = next(
        (
            fact
            for fact in reversed(window.facts)
            if _is_bytes(fact) and _LIMIT.search(plain(fact.key))
        ),
        None,
    )
    if limit is None or not limit.value:
        return ()
    grown = [course for course in _courses(window) if _has_grown(course)]
    near = [course for course in grown if (course[-1].value or 0.0) >= _NEAR * limit.value]
    if not near or any((course[-1].value or 0.0) > limit.value for course in near):
        return ()
    return (*(_told(course) for course in grown), says(limit))


def _is_bytes(fact: Fact) -> bool:
    return fact.unit is Unit.BYTES and fact.value is not None


def _courses(window: Window) -> Iterator[list[Fact]]:
    """Of each thing that holds memory of the host, what was told of it, in time order."""
    by_key: dict[str, list[Fact]] = {}
    for fact in window.facts:
        key = plain(fact.key)
        if _is_bytes(fact) and _HELD.search(key) and not _NOT_HELD.search(key):
            by_key.setdefault(fact.key, []).append(fact)
    yield from by_key.values()


def _has_grown(course: list[Fact]) -> bool:
    values = [fact.value or 0.0 for fact in course]
    return len(values) > 1 and sorted(values) == values and values[-1] >= _GROWN * values[0] > 0


def _told(course: list[Fact]) -> str:
    first, last = course[0], course[-1]
    return f"{last.key} {first.raw} -> {last.raw} in {last.at - first.at:.0f} s"

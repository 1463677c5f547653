"""A cache of prompts in the host's memory: full, or on its way to its limit and no further.

llama.cpp keeps the states of prompts there (`--cache-ram`) and says how large they are and may get.
Memory that grows up to that limit was bought, and nothing leaks. As long as it is not full, it
explains as much as it holds; memory that grows by more than that goes elsewhere.
"""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.window import Window

_FULL = 0.7
"""Of its limit: one more long prompt, and the oldest goes."""
_MIB = 1024.0**2
_MOST_SAID = 4
_BESIDE = 1.25
"""Times the limit: an allocator rounds up, and a prompt is there twice while it is stored."""


@dataclass(frozen=True, slots=True)
class KeptPrompts:
    """All prompts together, in bytes."""

    sizes: tuple[float, ...]
    """In time order."""
    limit: float
    dropped: tuple[float, ...]
    """Of each of the oldest that had to go; empty where it was never full."""

    @property
    def is_full(self) -> bool:
        """It had to drop some."""
        return bool(self.dropped)

    @property
    def says(self) -> str:
        """How it grew, and what it may have."""
        course = " -> ".join(f"{size / _MIB:.3f}" for size in self.sizes[-_MOST_SAID:])
        return (
            f"prompts that are kept: {course} MiB of at most {number(self.limit / _MIB)} MiB, "
            f"{len(self.dropped)} of the oldest dropped"
        )

    def explains(self, grown: float) -> bool:
        """Whether memory that grew by so many bytes is this cache."""
        return grown <= _BESIDE * (self.limit if self.is_full else self.sizes[-1])


def kept_prompts(window: Window) -> KeptPrompts | None:
    """None where nothing tells its course, where it dropped prompts and is not full, or where it
    grew beyond its limit by more than the prompt that goes next."""
    sizes = [
        event.fields
        for event in window.events_of(LogKind.HOST_STATE_SAVED)
        if event.words.get("what") == "all" and event.fields.get("limit_bytes", 0.0) > 0
    ]
    dropped = [
        event.fields.get("bytes", 0.0)
        for event in window.events_of(LogKind.CACHE_EVICTED)
        if event.words.get("what") == "prompt"
    ]
    if not sizes:
        return None
    last, limit = sizes[-1]["bytes"], sizes[-1]["limit_bytes"]
    kept = KeptPrompts(tuple(each["bytes"] for each in sizes), limit, tuple(dropped))
    if not dropped:
        return kept if len(sizes) > 1 and 0 < last <= limit else None
    return kept if _FULL * limit <= last <= limit + max(dropped) else None

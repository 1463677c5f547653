"""What an engine tells and cannot be: found where it comes in, before anybody counts with it.

A replica may be wrong, of another release, or lie. What it says about a request is counted, stored
and billed; what it says about itself decides where requests go. A number out of range is never
bent into range: an event that cannot be breaks the engine's contract, and a snapshot or a
measurement that cannot be is not used. Pure.
"""

import math
from collections.abc import Mapping

from dataplane.engine import EngineEvent, EngineStats, EngineUse
from dataplane.lifecycle import EventKind

MAX_TOKENS = 2**24
"""Of one number that an engine tells; above every prompt and answer there is."""
_MAX_COUNT = 2**53
_MAX_SECONDS = 366 * 86_400.0
_COUNTS_BY_KIND: Mapping[EventKind, tuple[str, ...]] = {
    EventKind.SCHEDULED: (),
    EventKind.PREFILL_CHUNK: ("num_tokens", "num_cached_tokens"),
    EventKind.FIRST_TOKEN: ("num_tokens",),
    EventKind.TOKENS: ("num_tokens",),
    EventKind.PREEMPTED: (),
    EventKind.RESUMED: (),
    EventKind.PAUSED: (),
    EventKind.FINISHED: ("num_prompt_tokens", "num_output_tokens"),
    EventKind.RELEASED: (),
}
"""All that an engine tells, and what is counted of it."""
_STAT_FIELDS = (
    *("max_num_seqs", "num_running", "num_waiting", "num_blocks", "num_free_blocks"),
    *("num_referenced_blocks", "num_cached_blocks", "num_evictable_blocks", "num_unreleased"),
    *("num_steps", "prompt_tokens_scheduled", "decode_steps_scheduled", "num_preemptions"),
)
_PARTS_OF_BLOCKS = ("num_free_blocks", "num_referenced_blocks", "num_cached_blocks")


def find_impossible_event(event: EngineEvent) -> str | None:
    """Why no engine can mean it, in words; None: it may be so. Of its time nothing is said here,
    nor of what it used."""
    counts = _COUNTS_BY_KIND.get(event.kind)
    if counts is None:
        return f"{event.kind} is not for an engine to tell"
    for name in counts:
        number = getattr(event, name)
        if number is not None and not 0 <= number <= MAX_TOKENS:
            return f"{name} is {number}"
    if event.status_code is not None and not 400 <= event.status_code <= 599:
        return f"{event.status_code} is no status of an error"
    return None


def find_impossible_use(used: EngineUse) -> str | None:
    """Why nothing can have taken so much, in words; None: it may have."""
    if not 0 <= used.engine_seconds <= _MAX_SECONDS:
        return f"engine_seconds is {used.engine_seconds}"
    blocks = used.kv_block_seconds
    if blocks is not None and not 0 <= blocks <= _MAX_COUNT:
        return f"kv_block_seconds is {blocks}"
    return None


def find_impossible_stats(stats: EngineStats) -> str | None:
    """Why no engine can be so, in words; None: it may be."""
    if not 0 <= stats.age_seconds < math.inf:
        return f"age_seconds is {stats.age_seconds}"
    for name in _STAT_FIELDS:
        number = getattr(stats, name)
        if number is not None and not 0 <= number <= _MAX_COUNT:
            return f"{name} is {number}"
    if stats.block_size is not None and not 0 < stats.block_size <= MAX_TOKENS:
        return f"block_size is {stats.block_size}"
    if stats.num_blocks is None:
        return None
    for name in _PARTS_OF_BLOCKS:
        number = getattr(stats, name)
        if number is not None and number > stats.num_blocks:
            return f"{name} is {number}, of {stats.num_blocks} blocks"
    return None

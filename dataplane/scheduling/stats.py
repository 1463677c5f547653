"""What a scheduler counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStats:
    """A snapshot between two steps."""

    num_running: int
    num_waiting: int
    """Preempted ones included."""
    num_unreleased: int
    """Finished sequences that still hold blocks or a place."""
    num_free_blocks: int
    num_referenced_blocks: int
    num_cached_blocks: int
    num_evictable_blocks: int
    num_steps: int
    num_preemptions: int
    num_prefix_query_tokens: int
    """Prompt tokens looked up in the prefix cache, at first admissions."""
    num_prefix_hit_tokens: int

"""What a simulated replica did, in numbers that add up over its processes."""

from dataclasses import astuple, dataclass


@dataclass(slots=True)
class ReplicaCounts:
    """Of one process, or of several."""

    num_requests: int = 0
    num_starts: int = 0
    busy_seconds: float = 0.0
    """In steps."""
    serving_seconds: float = 0.0
    num_steps: int = 0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    """Computed, those of recomputation included."""
    num_output_tokens: int = 0
    num_prefix_query_tokens: int = 0
    num_prefix_hit_tokens: int = 0

    def __add__(self, other: "ReplicaCounts") -> "ReplicaCounts":
        return ReplicaCounts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

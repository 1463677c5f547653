"""How many replicas each arm of a rollout has. Pure.

The stable arm gives up no more than may be missing anyway until the candidate is promoted, and
never its last replica: whatever happens before, going back leaves no less than the rollout left
all the time. Where that leaves no room for a candidate, it has none.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArmSizes:
    """Replicas."""

    stable: int
    candidate: int

    def limit(self, share: float) -> float:
        """Of the traffic, what the candidate takes of a step's share: no more than its part of the
        replicas, since more would make it look worse than it is."""
        both = self.stable + self.candidate
        return min(share, self.candidate / both) if both else 0.0


def arm_sizes(num_replicas: int, share: float, max_surge: int, max_unavailable: int) -> ArmSizes:
    """For a step that gives the candidate `share` of the traffic, 0 to 1."""
    wanted = max(1, math.ceil(num_replicas * share))
    given_up = min(max_unavailable, max(0, num_replicas - 1))
    candidate = min(wanted, max_surge + given_up, num_replicas)
    return ArmSizes(num_replicas - max(0, candidate - max_surge), candidate)

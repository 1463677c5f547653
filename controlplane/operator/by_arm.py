"""What is told of lanes, apart by arm: of deployments by name, of candidates by rollout."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from controlplane.operator.desired import DesiredReplicas

Told = TypeVar("Told")


def by_arm(
    told: Mapping[str, Told], desired: Sequence[DesiredReplicas]
) -> tuple[dict[str, Told], dict[int, Told]]:
    """`told` by lane. What is of no candidate is its deployment's, also of one that is gone."""
    candidates = {each.lane: each.rollout for each in desired if each.rollout is not None}
    return (
        {name: value for name, value in told.items() if name not in candidates},
        {number: told[lane] for lane, number in candidates.items() if lane in told},
    )

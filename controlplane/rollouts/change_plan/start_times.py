"""How long a replica takes to start, by those that started before."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dataplane.engine import ReplicaSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStart:
    """One replica that started, and what that took."""

    spec: ReplicaSpec
    digest: str
    seconds: float
    """All its stages together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """What earlier starts took; seconds."""

    num_starts: int
    median: float
    longest: float
    basis: str
    """What they have in common with what would start."""


def start_times(starts: Sequence[PastStart], spec: ReplicaSpec, digest: str) -> StartTimes | None:
    """Of those that are most alike to a replica of `spec`; None: none ever started that tells."""
    alike: tuple[tuple[str, Callable[[PastStart], bool]], ...] = (
        ("of the same model and engine config", lambda each: each.digest == digest),
        (
            "of the same model and engine, with other settings",
            lambda each: (each.spec.engine, each.spec.artifact) == (spec.engine, spec.artifact),
        ),
        (
            "of the same engine, with another model",
            lambda each: each.spec.engine == spec.engine,
        ),
    )
    for basis, is_alike in alike:
        seconds = [each.seconds for each in starts if is_alike(each)]
        if seconds:
            return StartTimes(
                num_starts=len(seconds),
                median=statistics.median(seconds),
                longest=max(seconds),
                basis=basis,
            )
    return None

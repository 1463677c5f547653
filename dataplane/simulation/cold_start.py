"""A replica that starts: what each stage takes, and whether it is ready while it is needed.

The stages are those that an engine's process reports: acquire the device, load the weights,
compile, warm up. A replica takes requests when the last one has ended, not before; one that is
ready when the burst is over has helped nobody.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from enum import StrEnum

from dataplane.simulation.timeline import Timeline


class StartStage(StrEnum):
    """What a starting replica does, in this order."""

    ACQUIRE = "acquire"
    LOAD = "load"
    COMPILE = "compile"
    WARM_UP = "warm_up"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """Seconds of each stage. Raises ValueError for a negative one."""

    acquire: float = 0
    load: float = 0
    compile: float = 0
    warm_up: float = 0

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0:
            raise ValueError(f"{self}: a stage cannot take less than 0 seconds")

    @property
    def ready_after(self) -> float:
        """Seconds from the start until requests are taken."""
        return self.acquire + self.load + self.compile + self.warm_up

    def begin(self, timeline: Timeline, on_stage: Callable[[StartStage], object]) -> None:
        """Start now: `on_stage` is told each stage when it begins, READY when all have ended."""
        stages = iter(zip(StartStage, (*astuple(self), 0), strict=True))

        def enter_next() -> None:
            stage, seconds = next(stages)
            on_stage(stage)
            if stage is not StartStage.READY:
                timeline.after(seconds, enter_next)

        enter_next()


def ready_overlap(burst_seconds: float, ready_after_seconds: float) -> float:
    """Seconds of a burst in which a replica is ready that was started when the burst began."""
    return max(0, burst_seconds - ready_after_seconds)

"""Weights that come over a link which all starting replicas share.

One that starts alone loads as fast as the link carries; of several that start at once each
waits for those before it. Where the link narrows, every start behind it is late.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.link import Link
from dataplane.simulation.timeline import Timeline


class SharedLink:
    """A link of one simulation, made when the first asks for it."""

    def __init__(self, bits_per_second: float) -> None:
        self._bits_per_second = bits_per_second
        self._link: Link | None = None

    def on(self, timeline: Timeline) -> Link:
        """The link. All must ask with the same timeline."""
        if self._link is None:
            self._link = Link(timeline, self._bits_per_second)
        return self._link


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsOverLink(ColdStart):
    """A start whose weights are sent over `link`; `load` is what loading takes besides."""

    link: SharedLink
    num_bytes: float

    def __post_init__(self) -> None:
        # astuple, as ColdStart has it, would copy the link.
        if min(self.acquire, self.load, self.compile, self.warm_up, self.num_bytes) < 0:
            raise ValueError(f"{self}: a stage cannot take less than 0, nor weights")

    def begin(self, timeline: Timeline, on_stage: Callable[[StartStage], object]) -> None:
        """As ColdStart."""
        on_stage(StartStage.ACQUIRE)
        timeline.after(self.acquire, partial(self._load, timeline, on_stage))

    def _load(self, timeline: Timeline, on_stage: Callable[[StartStage], object]) -> None:
        on_stage(StartStage.LOAD)
        self.link.on(timeline).send(
            self.num_bytes,
            lambda: timeline.after(self.load, partial(self._end, timeline, on_stage)),
        )

    def _end(self, timeline: Timeline, on_stage: Callable[[StartStage], object]) -> None:
        """What comes behind the weights."""
        on_stage(StartStage.COMPILE)
        timeline.after(self.compile, partial(on_stage, StartStage.WARM_UP))
        timeline.after(self.compile + self.warm_up, partial(on_stage, StartStage.READY))

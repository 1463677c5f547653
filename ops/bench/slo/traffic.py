"""Traffic with known truth: every request of some days, by the second, and who watched it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
MINUTE, HOUR, DAY = 60, 3_600, 86_400
SCRAPE_SECONDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Some time in which nothing changes."""

    seconds: int
    per_minute: int = 1200
    bad_share: float = 0.0
    """Of its requests, spread evenly over them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What happens, and what hides some of it from who scrapes."""

    name: str
    trouble: Sequence[Phase]
    after_seconds: int
    """How long all is well again."""
    before: Phase
    restarts: Sequence[int] = ()
    """Seconds after the trouble began at which the gateway is another process, which counts from
    zero."""
    unscraped: Sequence[tuple[int, int]] = ()
    """From when until before when nobody scraped, in seconds after the trouble began."""

    @property
    def trouble_at(self) -> int:
        """Seconds after the first request."""
        return self.before.seconds

    @property
    def phases(self) -> list[Phase]:
        """In their order."""
        usual = Phase(
            seconds=self.after_seconds,
            per_minute=self.before.per_minute,
            bad_share=self.before.bad_share,
        )
        return [self.before, *self.trouble, usual]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How many requests ended before each second since the first one, from 0 on."""

    total: Counts
    bad: Counts

    @property
    def seconds(self) -> int:
        """How long it is."""
        return len(self.total) - 1


def traffic_of(phases: Sequence[Phase]) -> Traffic:
    """One second after the other."""
    totals, bads = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    for phase in phases:
        ended = np.arange(1, phase.seconds + 1, dtype=np.int64) * phase.per_minute // MINUTE
        bad = np.floor(ended * phase.bad_share + 1e-9).astype(np.int64)
        totals.append(totals[-1][-1] + ended)
        bads.append(bads[-1][-1] + bad)
    return Traffic(total=np.concatenate(totals), bad=np.concatenate(bads))

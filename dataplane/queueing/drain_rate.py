"""How fast the queue of one deployment drains, as it was measured.

Only time in which somebody waited tells what the deployment can do: what starts at once says
nothing but how much arrived. So requests and tokens that began after a wait are counted, and the
seconds in which somebody waited, both with the same slow forgetting::

    waiting   ____/#####\\______/##########\\___     seconds counted: those of #
    begin         x x x         x x x x x x         rate = how many x / how many seconds of #

A deployment that stands still is waited for and lets nobody begin, so its rate falls by itself.
Once nobody waits any more the reading ages, and says so.
"""

import math
from dataclasses import dataclass

from dataplane.clock import MonotonicClock

HALF_LIFE_SECONDS = 20.0
"""Of waiting: after so much of it, what was counted before weighs half."""
MAX_AGE_SECONDS = 60.0
"""A rate that was last measured longer ago is not used."""
MIN_BEGUN = 3
"""Fewer tell a moment, and no rate."""
_MEAN_LIFE_SECONDS = HALF_LIFE_SECONDS / 0.6931471805599453  # ln 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReading:
    """A measured rate."""

    requests_per_second: float
    tokens_per_second: float
    """Prompt tokens and those that may be generated, of the requests that began."""
    age_seconds: float
    """Since when nobody waits; 0: somebody does."""

    @property
    def is_current(self) -> bool:
        """Fit to be used."""
        return self.age_seconds <= MAX_AGE_SECONDS

    def seconds_for(self, num_requests: float) -> float:
        """How long so many requests take to begin, one after the other."""
        if num_requests <= 0:
            return 0.0
        rate = self.requests_per_second
        return num_requests / rate if rate > 0 else math.inf


class DrainRate:
    """Of one queue, which tells it what happens there. Each call costs the same, whatever waits."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._seconds = 0.0
        self._num_requests = 0.0
        self._num_tokens = 0.0
        self._num_ever = 0
        self._at = clock()
        """Until when all is counted; since when nobody waits, where nobody does."""
        self._is_waited_for = False

    def note_waiting(self, is_anybody: bool) -> None:
        """From now on somebody waits, or nobody does. Telling what is known costs nothing."""
        if is_anybody is not self._is_waited_for:
            self._count()
            self._at = self._clock()
            self._is_waited_for = is_anybody

    def note_begun(self, num_tokens: int) -> None:
        """A request that had waited got its slots."""
        self._count()
        self._num_requests += 1
        self._num_tokens += num_tokens
        self._num_ever += 1

    def read(self) -> DrainReading | None:
        """The rate, or None before MIN_BEGUN have begun after a wait."""
        self._count()
        if self._num_ever < MIN_BEGUN or self._seconds <= 0:
            return None
        return DrainReading(
            requests_per_second=self._num_requests / self._seconds,
            tokens_per_second=self._num_tokens / self._seconds,
            age_seconds=0.0 if self._is_waited_for else self._clock() - self._at,
        )

    def read_behind(self, of_all: DrainReading) -> DrainReading:
        """As `read`, of some of those who wait, where all of them begin as `of_all` says.

        MIN_BEGUN count as if they had begun at that pace: who has only begun to wait is as fast
        as any, and who waits in vain is slower by the second.
        """
        self._count()
        rate = of_all.requests_per_second
        expected_seconds = MIN_BEGUN / rate if rate > 0 else math.inf
        seconds = self._seconds + expected_seconds
        return DrainReading(
            requests_per_second=(self._num_requests + MIN_BEGUN) / seconds,
            tokens_per_second=self._num_tokens / seconds,
            age_seconds=of_all.age_seconds,
        )

    def _count(self) -> None:
        if not self._is_waited_for:
            return
        now = self._clock()
        passed = now - self._at
        if passed <= 0:
            return
        kept = 0.5 ** (passed / HALF_LIFE_SECONDS)
        self._num_requests *= kept
        self._num_tokens *= kept
        self._seconds = self._seconds * kept + _MEAN_LIFE_SECONDS * (1 - kept)
        self._at = now

"""How many may be tries of what was tried before, for each that comes for the first time.

A service that is short of capacity makes its clients try again, and their tries make it shorter:
each request then arrives several times, and is paid for several times. Within the budget a retry
is as good as any request; past it, what would have to wait is refused, and what was lost on one
replica is not sent to another.

First tries and the retries that were let in are counted with the same slow forgetting, so that
only their share matters; retries that come and are refused count for nothing, or a storm would
raise its own budget. A few retries are always within it: a share of very little is nothing.
"""

from collections import OrderedDict
from dataclasses import dataclass

from dataplane.clock import MonotonicClock

HALF_LIFE_SECONDS = 10.0
"""What was counted so long ago weighs half."""
FREE_RETRIES = 3.0
"""Always within the budget."""
REMEMBERED_SECONDS = 30.0
"""A body that comes again within this time, of one whose try was not answered, is a retry."""
MAX_REMEMBERED = 8192
"""Bodies."""
RETRY_COUNT_HEADER = "x-stainless-retry-count"
"""OpenAI's clients count in it how often they sent this call before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStanding:
    """What one retry meets."""

    why_retry: str
    """How it was recognised, in words."""
    num_retries: float
    """That were let in."""
    num_first: float
    """First tries that came."""
    num_allowed: float
    """Retries, for so many first tries."""

    @property
    def is_over(self) -> bool:
        """The budget is spent."""
        return self.num_retries + 1 > self.num_allowed


class RetryBudget:
    """Of one deployment. Each call costs the same, whatever arrives."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._at = clock()
        self._num_first = 0.0
        self._num_retries = 0.0
        self._unanswered: OrderedDict[tuple[str, bytes], float] = OrderedDict()
        """Until when each is remembered; the oldest first."""

    @property
    def num_remembered(self) -> int:
        """Bodies that were not answered, those whose time is over and that nobody met included."""
        return len(self._unanswered)

    def find_retry(
        self, tenant: str, told_count: str | None, fingerprint: bytes | None
    ) -> str | None:
        """How a request shows that it was tried before, in words; None: it does not.

        `told_count` is what its client says in RETRY_COUNT_HEADER, `fingerprint` its body's.
        """
        if told_count is not None and told_count.isdecimal() and int(told_count[:9]) > 0:
            return f"its client says that it is retry {int(told_count[:9])}"
        if fingerprint is None:
            return None
        until = self._unanswered.get((tenant, fingerprint))
        if until is None or until <= self._clock():
            return None
        ago = REMEMBERED_SECONDS - (until - self._clock())
        return f"the same body of the same tenant was not answered {ago:.1f} s ago"

    def stand(self, why_retry: str, share: float) -> RetryStanding:
        """What a retry meets now, where `share` of so many as came first may be retries."""
        self._forget()
        return RetryStanding(
            why_retry=why_retry,
            num_retries=self._num_retries,
            num_first=self._num_first,
            num_allowed=max(FREE_RETRIES, share * self._num_first),
        )

    def note_first(self) -> None:
        """A request came for the first time, let in or not."""
        self._forget()
        self._num_first += 1

    def note_retry(self) -> None:
        """A retry was let in: one of a client, or one of ours on another replica."""
        self._forget()
        self._num_retries += 1

    def remember(self, tenant: str, fingerprint: bytes) -> None:
        """A request with this body ended without an answer."""
        key = (tenant, fingerprint)
        self._unanswered.pop(key, None)
        self._unanswered[key] = self._clock() + REMEMBERED_SECONDS
        if len(self._unanswered) > MAX_REMEMBERED:
            self._unanswered.popitem(last=False)

    def forget(self, tenant: str, fingerprint: bytes) -> None:
        """A request with this body was answered: what comes again is another one."""
        self._unanswered.pop((tenant, fingerprint), None)

    def _forget(self) -> None:
        now = self._clock()
        passed = now - self._at
        if passed > 0:
            kept = 0.5 ** (passed / HALF_LIFE_SECONDS)
            self._num_first *= kept
            self._num_retries *= kept
            self._at = now

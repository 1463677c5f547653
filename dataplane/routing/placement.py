"""One attempt of a request on the replica that was chosen for it: its work, while it is there.

It begins with the choice, so that the next choice counts it, and ends with the lease of its slots.
In between whoever hears of the engine says what has become of it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataplane.decision import RoutingDecision
from dataplane.routing.candidate import Candidate
from dataplane.routing.request import RoutingRequest

if TYPE_CHECKING:
    from dataplane.routing.router import Router

_RATE_WEIGHT = 0.2
"""Of the newest prompt, in the measured prefill rate."""
_MIN_MEASURED_TOKENS = 64
"""Of a prompt: with fewer, a step's fixed cost is all that is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Of one answer."""

    tpot_seconds: float
    num_tokens: int
    num_held: float
    """Sequences that its replica had meanwhile, its own included, in the mean."""


class Placement:
    """Made by the router. Every method may be called at any time, and twice is no error."""

    # What most never change is told once, and costs a placement nothing.
    _scheduled_at: float | None = None
    _is_open = True
    _is_failed = False
    _is_found = False
    first_token_at: float | None = None
    """Where its router measures paces."""
    _num_held_then = 0
    _began_at: float | None = None
    """Until its first token; None also where nobody asked for first tokens when it began."""

    def __init__(
        self,
        router: "Router",
        candidate: Candidate,
        request: RoutingRequest,
        num_cached_tokens: int,
        decision: RoutingDecision | None,
        now: float,
    ) -> None:
        """`num_cached_tokens` of its prompt the replica probably has, and never all."""
        self.replica_id = candidate.replica_id
        self.decision = decision
        """Why it is there; None: nobody wanted to know."""
        self.num_cached_tokens = num_cached_tokens
        self._candidate = candidate
        self._router = router
        self._request = request
        self._num_ahead = num_ahead = request.num_prompt_tokens - num_cached_tokens
        candidate.num_prompt_tokens_ahead += num_ahead
        candidate.num_output_tokens_ahead += request.num_output_tokens
        if router.first_tokens is not None:
            self._began_at = now
        router.ejections.note_sent(candidate.replica_id, self, now)

    @property
    def num_prompt_tokens(self) -> int:
        """Of its request."""
        return self._request.num_prompt_tokens

    @property
    def has_blocks(self) -> bool:
        """Its prompt is told apart from others."""
        return bool(self._request.blocks)

    def note_scheduled(self, at: float | None = None) -> None:
        """Its engine began with it, now unless `at` says when, and shows so."""
        self._scheduled_at = self._router.clock() if at is None else at

    def note_cached(self, num_cached_tokens: int) -> None:
        """Its engine found so much of the prompt: that is exact, what was thought is not."""
        if not self._is_found:
            self._is_found = True
            self._router.note_found(self.replica_id, self.num_cached_tokens, num_cached_tokens)
        num_ahead = max(0, self._request.num_prompt_tokens - num_cached_tokens)
        if self._is_open and self._num_ahead:
            self._candidate.num_prompt_tokens_ahead += num_ahead - self._num_ahead
            self._num_ahead = num_ahead
        self.num_cached_tokens = num_cached_tokens

    def note_first_token(self) -> None:
        """Its prompt is computed."""
        if not self._is_open:
            return
        now = self._router.clock()
        self._router.ejections.note_first_token(self.replica_id, self, now)
        if self._scheduled_at is not None:
            self._measure(now, self._scheduled_at)
        self._candidate.num_prompt_tokens_ahead -= self._num_ahead
        self._num_ahead = 0
        if self._began_at is not None:
            self._router.note_first_token(self, now - self._began_at)
            self._began_at = None
        if self._router.measures_pace:
            self.first_token_at = now
            self._num_held_then = self._candidate.num_outstanding

    def forget_pace(self) -> None:
        """Its engine is held up by its client: how fast it answers says nothing."""
        self.first_token_at = None

    def read_pace(self, num_tokens: int) -> Pace | None:
        """Of an answer of so many tokens that ends now, while its slots are held; None: nobody
        measures it, or it has none."""
        num_gaps = num_tokens - 1
        if self.first_token_at is None or num_gaps < 1 or self._is_failed:
            return None
        seconds = self._router.clock() - self.first_token_at
        num_held = (self._num_held_then + self._candidate.num_outstanding) / 2
        return Pace(tpot_seconds=seconds / num_gaps, num_tokens=num_tokens, num_held=num_held)

    def fail(self) -> None:
        """Its replica failed it: lost, broken, or an error that is not the caller's."""
        self._is_failed = True

    def end(self) -> None:
        """Nothing of it is left. The router may tell that its replica is ejected."""
        if not self._is_open:
            return
        self._is_open = False
        self._candidate.num_prompt_tokens_ahead -= self._num_ahead
        self._candidate.num_output_tokens_ahead -= self._request.num_output_tokens
        self._router.note_end(self, self._is_failed)

    def _measure(self, now: float, scheduled_at: float) -> None:
        num_computed = self._request.num_prompt_tokens - self.num_cached_tokens
        seconds, self._scheduled_at = now - scheduled_at, None
        if num_computed < _MIN_MEASURED_TOKENS or seconds <= 0:
            return
        rate, before = num_computed / seconds, self._candidate.prefill_tokens_per_second
        self._candidate.prefill_tokens_per_second = (
            rate if before is None else before + _RATE_WEIGHT * (rate - before)
        )

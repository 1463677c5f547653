"""What an engine has produced and its client has not taken, and what becomes of a request whose
client is too slow: a pure rule.

    bytes that wait
    twice -------------------------------     past twice        no more of its engine is taken
       |            .-'''-.
    buffer ------.-'-------'-.-----------     past the buffer   paused where its engine can, or
       |      .-'             '-.                               ended
    half  .-'--------------------'-.-----     down to half      a paused one goes on
       '-------------------------------> time

Whether its engine really paused is told by that alone. All pauses of a request together are
bounded: it keeps what it holds of its engine meanwhile. A client that takes nothing at all for
longer than writes are waited for is gone anyway (see dataplane.write_patience).
"""

from dataplane.slow_client_terms import SlowClientAction, SlowClientTerms

TOO_SLOW = "the client read too slowly"
"""How the reason of a request begins that was ended for it."""
TOO_SLOW_CODE = "client_too_slow"
"""Of the error that its client is told."""


_WAIT_FOR_CLIENT = "wait for the client to read"


def is_for_client(reason: str | None) -> bool:
    """The reason of a pause says that the client was too slow."""
    return reason is not None and _WAIT_FOR_CLIENT in reason


def is_too_slow(reason: str | None) -> bool:
    """The reason of an end says that the client read too slowly."""
    return reason is not None and reason.startswith(TOO_SLOW)


class Backlog:
    """Of one request. Bytes are those of the answer's content, without what wraps it."""

    __slots__ = (
        "_paused_at",
        "_paused_before",
        "is_engine_paused",
        "is_over",
        "num_bytes",
        "terms",
    )

    def __init__(self, terms: SlowClientTerms) -> None:
        self.terms = terms
        self.num_bytes = 0
        self.is_over = False
        """More waits than may; until half of that is left, while it is paused."""
        self.is_engine_paused = False
        """Its engine says so."""
        self._paused_at: float | None = None
        self._paused_before = 0.0

    def put(self, num_bytes: int) -> None:
        """So much more was produced."""
        self.num_bytes += num_bytes
        if self.num_bytes > self.terms.max_waiting_bytes:
            self.is_over = True

    def take(self, num_bytes: int) -> None:
        """The client took so much."""
        self.num_bytes -= num_bytes
        if self.num_bytes <= self.terms.max_waiting_bytes // 2:
            self.is_over = False

    @property
    def is_paused(self) -> bool:
        """Its engine is to wait for the client."""
        return self._paused_at is not None

    @property
    def may_pause(self) -> bool:
        """Its engine is to wait, as long as there is time for that."""
        return self.terms.then is SlowClientAction.PAUSE

    @property
    def is_far_over(self) -> bool:
        """No more of its engine is to be taken."""
        return self.num_bytes > 2 * self.terms.max_waiting_bytes

    def pause(self, now: float) -> float:
        """It is over: for how many seconds its engine may wait. 0: it is to be ended."""
        if self.terms.then is SlowClientAction.END:
            return 0.0
        left = self.terms.pause_seconds - self._paused_before
        if left <= 0:
            return 0.0
        self._paused_at = now
        return left

    def resume(self, now: float) -> None:
        """Its engine goes on, or is ended."""
        if self._paused_at is not None:
            self._paused_before += now - self._paused_at
            self._paused_at = None

    @property
    def why_paused(self) -> str:
        """In words."""
        return f"{self.num_bytes} bytes {_WAIT_FOR_CLIENT}"

    @property
    def why_held_up(self) -> str:
        """In words."""
        return f"{self.why_paused}, so no more of its engine is taken"

    @property
    def why_ended(self) -> str:
        """In words; what `TOO_SLOW` begins."""
        why = f"{TOO_SLOW}: {self.num_bytes} bytes waited"
        if self.terms.then is SlowClientAction.END:
            return why
        return f"{why}, and it was waited for {self.terms.pause_seconds:g} s in all"

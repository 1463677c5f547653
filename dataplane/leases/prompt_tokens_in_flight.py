"""Prompt tokens of the requests that were admitted and are not released, of one deployment."""

from dataclasses import dataclass

from dataplane.leases.lease import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShortage:
    """So many more do not fit now."""

    num_in_flight: int
    limit: int

    @property
    def reason(self) -> str:
        """In words."""
        return f"{self.num_in_flight} prompt tokens are in flight, and at most {self.limit} may be"


class PromptTokensInFlight:
    """Counts them by leases."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._num_leases = 0

    def find_shortage(self, num_tokens: int, limit: int | None) -> PromptShortage | None:
        """Why a prompt may not come in now; None: it may. One above the limit comes in alone: it
        would otherwise never."""
        if limit is None or not self.num_tokens or self.num_tokens + num_tokens <= limit:
            return None
        return PromptShortage(num_in_flight=self.num_tokens, limit=limit)

    def try_take(self, num_tokens: int, limit: int | None) -> Lease | PromptShortage:
        """Count a prompt in until its lease ends. Without a limit it is counted all the same."""
        shortage = self.find_shortage(num_tokens, limit)
        if shortage is not None:
            return shortage
        self.num_tokens += num_tokens
        self._num_leases += 1
        return Lease(lambda: self._give_back(num_tokens))

    def check_integrity(self) -> None:
        """Raises AssertionError when tokens are counted that nobody holds."""
        if self._num_leases < 0 or self.num_tokens < 0:
            raise AssertionError(f"{self.num_tokens} tokens of {self._num_leases} leases")
        if not self._num_leases and self.num_tokens:
            raise AssertionError(f"nobody holds the {self.num_tokens} prompt tokens in flight")

    def _give_back(self, num_tokens: int) -> None:
        self.num_tokens -= num_tokens
        self._num_leases -= 1

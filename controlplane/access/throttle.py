"""Guessing passwords is slow: only so many attempts that failed within a window."""

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

_WINDOW_MINUTES = 5
_PER_USER_AND_ADDRESS = RateLimitItemPerMinute(5, _WINDOW_MINUTES)
_PER_ADDRESS = RateLimitItemPerMinute(20, _WINDOW_MINUTES)
# Wide enough that nobody shuts a colleague out by accident, narrow enough for a botnet.
_PER_USER = RateLimitItemPerMinute(100, _WINDOW_MINUTES)


class LoginThrottle:
    """Counts in this process's memory."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def begin_attempt(self, user: str, address: str, now_unix: float) -> int:
        """Count one attempt before it is made, so that many at once are no way around.

        Returns 0, or the seconds to wait; then the attempt must not be made. The narrowest
        limit comes first, and what it refuses uses up none of the wider ones: else one address
        could keep a user out from everywhere.
        """
        for limit, who in self._limits(user, address):
            if not self._limiter.hit(limit, *who):
                reset = self._limiter.get_window_stats(limit, *who).reset_time
                return max(1, round(reset - now_unix))
        return 0

    def note_success(self, user: str, address: str) -> None:
        """The user's own attempts are forgotten; what an address did to others is not."""
        self._limiter.clear(_PER_USER_AND_ADDRESS, user, address)

    @staticmethod
    def _limits(
        user: str, address: str
    ) -> tuple[tuple[RateLimitItemPerMinute, tuple[str, ...]], ...]:
        return (
            (_PER_USER_AND_ADDRESS, (user, address)),
            (_PER_ADDRESS, ("address", address)),
            (_PER_USER, ("user", user)),
        )

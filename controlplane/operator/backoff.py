"""Crash loops: how long a deployment waits before its next start, longer with each failure."""

from dataclasses import dataclass

from dataplane.clock import MonotonicClock

_MAX_DELAY_SECONDS = 60.0
_STEADY_SECONDS = 60.0
"""A replica that was ready for so long did not fail because of what it is."""


def delay_seconds(num_failures: int) -> float:
    """0, 1, 2, 4, ... up to a minute: a single failure is replaced at once."""
    if num_failures <= 1:
        return 0.0
    return float(min(_MAX_DELAY_SECONDS, 2.0 ** min(num_failures - 2, 16)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures in a row of replicas that were started from one spec."""

    digest: str
    num_failures: int
    last_at: float
    last_reason: str


class Backoff:
    """The failures of every deployment. A changed spec is a fresh start."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._failures: dict[str, Failures] = {}

    def note_failure(
        self, deployment: str, digest: str, reason: str, ready_seconds: float | None
    ) -> None:
        """A replica failed, after having been ready for `ready_seconds` (None: never)."""
        before = self._failures.get(deployment)
        was_steady = ready_seconds is not None and ready_seconds >= _STEADY_SECONDS
        is_repeated = before is not None and before.digest == digest and not was_steady
        self._failures[deployment] = Failures(
            digest=digest,
            num_failures=before.num_failures + 1 if before and is_repeated else 1,
            last_at=self._clock(),
            last_reason=reason,
        )

    def note_all_ready(self, deployment: str, seconds: float) -> None:
        """Every replica that is wanted has been ready for so long, at least."""
        if seconds >= _STEADY_SECONDS:
            self._failures.pop(deployment, None)

    def num_failures(self, deployment: str, digest: str) -> int:
        """In a row, of this spec; 0 once what failed has been overcome."""
        failures = self._failures.get(deployment)
        return 0 if failures is None or failures.digest != digest else failures.num_failures

    def seconds_left(self, deployment: str, digest: str) -> float:
        """Until the deployment may start a replica; 0 when it may."""
        failures = self._failures.get(deployment)
        if failures is None or failures.digest != digest:
            return 0.0
        delay = delay_seconds(failures.num_failures)
        return max(0.0, failures.last_at + delay - self._clock())

    def find_hold(self, deployment: str, digest: str) -> str | None:
        """Why the deployment must not start a replica now; None when it may."""
        remaining = self.seconds_left(deployment, digest)
        if remaining <= 0:
            return None
        failures = self._failures[deployment]
        return (
            f"failed {failures.num_failures} times in a row, next start in "
            f"{remaining:.0f} s; last: {failures.last_reason}"
        )

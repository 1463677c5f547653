"""The vigil over ready replicas: which one has been silent for so long that it must be proven.

A replica is alive while its engine steps: gateways report how often it did, at no cost. One
that nobody has seen a step of for a while (it is idle, or it hangs) is to be probed, off the
request path. Only several failed probes in a row, with no step in between, mean that it hangs:
a busy replica that lets a probe wait goes on stepping and is never given up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.operator.settings import OperatorSettings
from dataplane.clock import MonotonicClock
from dataplane.report import GatewayReport


@dataclass(slots=True)
class _Watched:
    seen_at: float
    """When it last gave a sign of life, or was last probed."""
    num_steps: int | None = None
    num_failed: int = 0


class Vigil:
    """One reconciler's. Times are on its monotonic clock."""

    def __init__(self, settings: OperatorSettings, clock: MonotonicClock) -> None:
        self._settings = settings
        self._clock = clock
        self._watched: dict[str, _Watched] = {}

    def read_reports(self, reports: Iterable[tuple[GatewayReport, float]]) -> None:
        """Take the steps that gateways saw as signs of life. Old reports say nothing new."""
        for report, _ in reports:
            for replica in report.replicas:
                num_steps = replica.stats.num_steps if replica.stats else None
                if num_steps is not None:
                    self._note_steps(replica.replica_id, num_steps)

    def is_due(self, replica_id: str) -> bool:
        """It has been silent for so long that it is to be probed."""
        watched = self._watched.setdefault(replica_id, _Watched(self._clock()))
        return self._clock() - watched.seen_at > self._settings.silent_seconds

    def note_alive(self, replica_id: str) -> None:
        """It generated a token for a probe."""
        watched = self._watched.setdefault(replica_id, _Watched(self._clock()))
        watched.seen_at, watched.num_failed = self._clock(), 0

    def find_hang(self, replica_id: str, error: str) -> str | None:
        """A probe failed with `error`: why the replica is given up; None while it may yet live."""
        watched = self._watched.setdefault(replica_id, _Watched(self._clock()))
        watched.num_failed += 1
        # The next probe begins at once: what counts is that they fail in a row.
        watched.seen_at = self._clock() - self._settings.silent_seconds
        if watched.num_failed < self._settings.max_failed_probes:
            return None
        return (
            f"hung: {watched.num_failed} probes in a row failed and it took no step; last: {error}"
        )

    def keep_only(self, replica_ids: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(replica_ids)
        self._watched = {key: each for key, each in self._watched.items() if key in kept}

    def _note_steps(self, replica_id: str, num_steps: int) -> None:
        watched = self._watched.get(replica_id)
        if watched is None or (watched.num_steps is not None and num_steps <= watched.num_steps):
            return
        if watched.num_steps is not None:
            watched.seen_at, watched.num_failed = self._clock(), 0
        watched.num_steps = num_steps

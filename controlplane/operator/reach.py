"""Which attached endpoints no gateway reaches: nothing here probes them, and gateways do."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.operator.settings import OperatorSettings
from dataplane.clock import MonotonicClock
from dataplane.report import GatewayReport

UNREACHED = "no gateway reaches it"
REACHED_AGAIN = "a gateway reaches it again"


@dataclass(frozen=True, slots=True)
class _Lost:
    since_at: float
    why: str


class Reach:
    """One reconciler's. Times are on its monotonic clock."""

    def __init__(self, settings: OperatorSettings, clock: MonotonicClock) -> None:
        self._settings = settings
        self._clock = clock
        self._lost: dict[str, _Lost] = {}
        self._ages: dict[str, float] = {}

    def read_reports(self, reports: Iterable[tuple[GatewayReport, float]]) -> None:
        """Who is connected to what, by the reports that are not too old to say so."""
        connected: set[str] = set()
        errors: dict[str, str] = {}
        self._ages = {}
        for report, age_seconds in reports:
            if age_seconds > self._settings.fresh_report_seconds:
                continue
            for each in report.replicas:
                told = self._ages.get(each.replica_id, age_seconds)
                self._ages[each.replica_id] = min(age_seconds, told)
                if each.is_connected:
                    connected.add(each.replica_id)
                else:
                    errors[each.replica_id] = each.error or "it says not why"
        now = self._clock()
        self._lost = {
            replica_id: _Lost(
                self._lost[replica_id].since_at if replica_id in self._lost else now, why
            )
            for replica_id, why in errors.items()
            if replica_id not in connected
        }

    def is_told(self, replica_id: str) -> bool:
        """Whether any gateway says something of it now."""
        return replica_id in self._ages

    def age_of(self, replica_id: str) -> float | None:
        """Of the newest report that tells of it, in seconds; None: none does."""
        return self._ages.get(replica_id)

    def why_unreachable(self, replica_id: str) -> str | None:
        """What gateways say; None where one reaches it, or it was lost only just now."""
        lost = self._lost.get(replica_id)
        if lost is None or self._clock() - lost.since_at < self._settings.unreached_seconds:
            return None
        return f"{UNREACHED}: {lost.why}"

"""What gateways show in passing, kept as one mean a minute, for charts over time.

Reports come about every second and are no commits; their mean over a minute is one. A minute
that is not over when the control plane ends is not stored: a gap, which is the truth.
"""

import threading
from collections import defaultdict
from dataclasses import dataclass, field

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import State

from controlplane.store.database import Database
from controlplane.store.series import MinuteSample, add_samples
from dataplane.report import GatewayReport

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Gateway:
    """Sums over one gateway's reports of one minute."""

    num_reports: int = 0
    active: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    queued: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    tells_queues: bool = True

    def add(self, report: GatewayReport, deployments: dict[str, str]) -> None:
        self.num_reports += 1
        self.active[""] += report.counts.active
        self.queued[""] += report.num_queued
        for replica in report.replicas:
            deployment = deployments.get(replica.replica_id)
            if deployment is not None:
                self.active[deployment] += replica.num_outstanding
        if report.num_queued_by_deployment is None:
            self.tells_queues = False
            return
        for deployment, number in report.num_queued_by_deployment.items():
            self.queued[deployment] += number
            self.active[deployment] += number


class GatewaySamples:
    """The minute under way. Several threads may note reports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute_unix: int | None = None
        self._gateways: dict[str, _Gateway] = {}

    def note(
        self, report: GatewayReport, deployments: dict[str, str], now_unix_ns: int
    ) -> list[MinuteSample]:
        """Count a report in; `deployments` are the replicas', by replica.

        Returns the minute before, once, when this report is the first of a new one.
        """
        minute = now_unix_ns // 10**9 // 60 * 60
        with self._lock:
            over: list[MinuteSample] = []
            if self._minute_unix is not None and minute > self._minute_unix:
                over = _samples(self._minute_unix, list(self._gateways.values()))
                self._gateways = {}
            if self._minute_unix is None or minute >= self._minute_unix:
                self._minute_unix = minute
                self._gateways.setdefault(report.name, _Gateway()).add(report, deployments)
            return over


def gateway_samples(state: State) -> GatewaySamples:
    """The application's samples; made when they are first asked for."""
    samples = getattr(state, "gateway_samples", None)
    if not isinstance(samples, GatewaySamples):
        samples = state.gateway_samples = GatewaySamples()
    return samples


def store_samples(database: Database, samples: list[MinuteSample]) -> None:
    """Store a minute. One that cannot be stored becomes a gap, and is logged: no report waits."""
    try:
        with database.session() as session:
            add_samples(session, samples)
    except SQLAlchemyError as error:
        _log.warning("a minute of gauges was not stored", error=str(error))


def _samples(minute_unix: int, gateways: list[_Gateway]) -> list[MinuteSample]:
    deployments = sorted({name for each in gateways for name in (*each.active, *each.queued)})
    tells_queues = all(each.tells_queues for each in gateways)
    return [
        MinuteSample(
            minute_unix=minute_unix,
            deployment=name,
            num_gateways=len(gateways),
            active=sum(each.active.get(name, 0) / each.num_reports for each in gateways),
            queued=sum(each.queued.get(name, 0) / each.num_reports for each in gateways)
            if tells_queues or name == ""
            else None,
        )
        for name in deployments
    ]

"""What gateways show in passing, kept as one mean a minute, for charts over time.

Reports come about every second and are no commits; their mean over a minute is one. A minute
that is not over when the control plane ends is not stored: a gap, which is the truth.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import State

from controlplane.store.database import Database
from controlplane.store.series import MinuteSample, add_samples
from dataplane.report import GatewayReport

_REPORT_NS = 10**9
"""What one report stands for."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Process:
    """Sums over one gateway process's reports of one minute."""

    name: str
    """Of its place: while one process hands over to the next, both have it."""
    first_at_unix_ns: int
    last_at_unix_ns: int
    num_reports: int = 0
    active: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    queued: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    tells_queues: bool = True

    def add(self, report: GatewayReport, deployments: Mapping[str, str], now_unix_ns: int) -> None:
        self.num_reports += 1
        self.last_at_unix_ns = max(self.last_at_unix_ns, now_unix_ns)
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
        self._processes: dict[str, _Process] = {}

    def note(
        self, report: GatewayReport, deployments: Mapping[str, str], now_unix_ns: int
    ) -> list[MinuteSample]:
        """Count a report in; `deployments` are the replicas', by replica.

        Returns the minute before, once, when this report is the first of a new one.
        """
        minute = now_unix_ns // 10**9 // 60 * 60
        with self._lock:
            over: list[MinuteSample] = []
            if self._minute_unix is not None and minute > self._minute_unix:
                over = _samples(self._minute_unix, list(self._processes.values()))
                self._processes = {}
            if self._minute_unix is None or minute >= self._minute_unix:
                self._minute_unix = minute
                first = _Process(report.name, now_unix_ns, now_unix_ns)
                process = self._processes.setdefault(report.gateway_id, first)
                process.add(report, deployments, now_unix_ns)
            return over


def gateway_samples(state: State) -> GatewaySamples:
    """The application's samples."""
    samples: GatewaySamples = state.gateway_samples
    return samples


def store_samples(database: Database, samples: list[MinuteSample]) -> None:
    """Store a minute. One that cannot be stored becomes a gap, and is logged: no report waits."""
    try:
        with database.session() as session:
            add_samples(session, samples)
    except SQLAlchemyError as error:
        _log.warning("a minute of gauges was not stored", error=str(error))


def _samples(minute_unix: int, processes: list[_Process]) -> list[MinuteSample]:
    deployments = sorted({name for each in processes for name in (*each.active, *each.queued)})
    tells_queues = all(each.tells_queues for each in processes)
    by_name: dict[str, list[_Process]] = defaultdict(list)
    for each in processes:
        by_name[each.name].append(each)
    weighted = [(each, _share(each, by_name[each.name]) / each.num_reports) for each in processes]
    return [
        MinuteSample(
            minute_unix=minute_unix,
            deployment=name,
            num_gateways=len(by_name),
            active=sum(each.active.get(name, 0) * weight for each, weight in weighted),
            queued=sum(each.queued.get(name, 0) * weight for each, weight in weighted)
            if tells_queues or name == ""
            else None,
        )
        for name in deployments
    ]


def _share(process: _Process, of_its_name: list[_Process]) -> float:
    """How much of the time that a gateway was heard this process of it was: those that run side
    by side add up, one that took another's place shares the minute with it."""
    first = min(each.first_at_unix_ns for each in of_its_name)
    last = max(each.last_at_unix_ns for each in of_its_name)
    heard = process.last_at_unix_ns - process.first_at_unix_ns
    return (heard + _REPORT_NS) / (last - first + _REPORT_NS)

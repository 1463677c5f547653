"""What can be seen of every deployment: a history of some minutes, in bounded memory.

One thread owns it. Nothing here asks anybody but our own databases: pages are fetched by
`scraper`, and what came of it is handed in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.api.changes import STALE_SECONDS
from controlplane.api.marks import read_marks
from controlplane.diagnosis.always_on.count_history import CountHistory
from controlplane.diagnosis.always_on.deployment_history import DeploymentHistory
from controlplane.diagnosis.always_on.failure_history import FailureHistory
from controlplane.diagnosis.always_on.gateway_history import GatewayHistory
from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.report_history import Reports
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.always_on.turns import Target
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.records.ended_request import of_row
from controlplane.diagnosis.sources.records.ending_facts import SINCE_SECONDS
from controlplane.diagnosis.sources.records.request_facts import facts_of_requests
from controlplane.diagnosis.window import Change, Window
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.operator.page_look import PageLook
from controlplane.operator.restart import Restart
from controlplane.process_history import ProcessHistory
from controlplane.store.database import Database
from controlplane.store.minute_endings import count_endings
from controlplane.store.requests import RequestFilter, list_requests
from controlplane.store.series import SeriesSpan
from dataplane.engine_metrics.signal import Signal

_CHANGES_SECONDS = 6 * 3600
_REQUESTS_SECONDS = 60.0
_MAX_REQUESTS = 500
"""Of each deployment: enough for shares, and some milliseconds."""
_MAX_RECORDED = 8
"""Deployments whose requests are read at once."""
_SERVING = frozenset({"starting", "ready", "unreachable", "draining"})
_TO_SERVE = frozenset({"ready", "unreachable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What there is to judge of one deployment."""

    window: Window
    num_replicas: int
    """That run."""
    num_telling: int
    """Of them, those whose metrics are known."""
    silent: dict[str, str]
    """Why nothing is known of a replica, by replica: of those that were asked."""
    has_failed: bool
    """One failed, and none is ready since: its log is part of the window. Or one was given up."""


def targets_of(replicas: Iterable[ObservedReplica]) -> list[Target]:
    """The metrics pages that there may be: of our own engines those they told, of attached
    endpoints what is found below their base URL."""
    return [
        Target(
            replica_id=each.replica_id,
            deployment=each.deployment,
            address=address,
            is_observed_only=each.is_observed_only,
            is_to_serve=each.state in _TO_SERVE,
            is_lost=each.state == "unreachable",
        )
        for each in replicas
        if each.state in _SERVING and (address := _address(each)) is not None
    ]


class Sight:
    """Of all deployments."""

    def __init__(
        self,
        observed: ObservedState,
        config_db: Database,
        request_db: Database,
        processes: ProcessHistory,
        logs_dir: Path,
        keep_seconds: float,
    ) -> None:
        """`logs_dir` holds what replicas on this machine write, as `<replica>.log`."""
        self._observed = observed
        self._config_db = config_db
        self.request_db = request_db
        self._processes = processes
        self._keep_seconds = keep_seconds
        self._deployments: dict[str, DeploymentHistory] = {}
        self._readers = PageReaders()
        self._counts = CountHistory()
        self._requests: dict[str, Part] = {}
        self._gateways = GatewayHistory()
        self._changes: dict[str, list[Change]] = {}
        self._failures = FailureHistory(config_db, logs_dir)

    def names(self) -> list[str]:
        """Deployments of which something runs, or failed lately and is to run."""
        return sorted(self._deployments.keys() | self._failures.failed)

    def suspects(self) -> frozenset[str]:
        """Those of which gateways report what calls for a closer look, or of which one failed."""
        return self._failures.names | {
            name
            for name, kept in self._deployments.items()
            if kept.reports.last is not None and kept.reports.last.is_suspect
        }

    def asked_at(self, deployment: str) -> float:
        """When one of its replicas was last scraped, or failed."""
        kept = self._deployments.get(deployment)
        return max(0.0 if kept is None else kept.asked_at, self._failures.failed_at(deployment))

    def take_fleet(self, replicas: Sequence[ObservedReplica], at: float) -> None:
        """Which replicas there are now; of those that ended nothing is kept. And what gateways
        report."""
        by_deployment: dict[str, list[ObservedReplica]] = {}
        for each in replicas:
            if each.state in _SERVING:
                by_deployment.setdefault(each.deployment, []).append(each)
        self._deployments = {
            name: self._deployments.get(name) or DeploymentHistory(name) for name in by_deployment
        }
        gateways = self._observed.gateways()
        reports = Reports([report for report, age in gateways if age < STALE_SECONDS])
        for name, own in by_deployment.items():
            self._deployments[name].take_fleet(own, reports, at, at - self._keep_seconds)
        self._counts.forget_others(frozenset(by_deployment))

    def take_pages(self, pages: Iterable[ScrapedPage], at: float) -> None:
        """What came of one round of scrapes."""
        for page in pages:
            self._readers.forget_if_many()
            kept = self._deployments.get(page.target.deployment)
            if kept is not None:
                kept.take(page, self._readers, at, at - self._keep_seconds)

    def looks(self) -> dict[str, PageLook]:
        """At the pages of those that are only observed, by replica: what came of the last call."""
        return {
            key: look for kept in self._deployments.values() for key, look in kept.looks().items()
        }

    def restarts(self) -> dict[str, Restart]:
        """By replica: the newest that its pages tell of."""
        return {
            key: restart
            for kept in self._deployments.values()
            for key, restart in kept.restarts().items()
        }

    def take_gateways(self, pages: Sequence[ScrapedPage], at: float) -> None:
        """What came of asking every gateway for its metrics."""
        self._gateways.take(pages, at, frozenset(self._deployments))
        self._gateways.forget_before(at - self._keep_seconds)

    def take_counts(self, at: float) -> None:
        """How requests ended. Raises SQLAlchemyError."""
        since = int(at - SINCE_SECONDS) // 60 * 60
        with self.request_db.reading() as session:
            counted = count_endings(session, since)
        self._counts.take(counted, at)
        self._counts.forget_before(at - self._keep_seconds)

    def take_requests(self, troubled: Iterable[str], at: float) -> None:
        """Who sent the newest requests and what became of them, of deployments that are troubled or
        look so, and of those a tenant of which sends more than before. Raises SQLAlchemyError."""
        grown = {name for name in self._deployments if self._counts.is_one_sending_more(name)}
        wanted = (self.suspects() | grown | set(troubled)) & self._deployments.keys()
        since = round((at - _REQUESTS_SECONDS) * 1e9)
        self._requests = {}
        for name in sorted(wanted, key=lambda each: (each not in grown, each))[:_MAX_RECORDED]:
            with self.request_db.reading() as session:
                asked = RequestFilter(deployment=name, since_unix_ns=since)
                ended = [of_row(row) for row in list_requests(session, asked, _MAX_REQUESTS)]
            facts = facts_of_requests(ended, at, is_one_sending_more=name in grown)
            self._requests[name] = Part(facts=facts)

    def take_changes(self, at: float) -> None:
        """What was changed of late, and by whom. Raises SQLAlchemyError."""
        span = SeriesSpan(
            start_unix=int(at) - _CHANGES_SECONDS, end_unix=int(at) + 1, step_seconds=60
        )
        self._changes = {}
        for mark in read_marks(self._config_db, span, None, self._processes):
            change = Change(
                at=mark.at_unix_ns / 1e9,
                what=mark.text,
                subject=mark.subject,
                is_observation=mark.is_observation,
            )
            self._changes.setdefault(mark.deployment, []).append(change)

    def take_failures(self, at: float) -> None:
        """Which deployments have no replica that became ready since the last one failed, and of
        which one was given up just now. Raises SQLAlchemyError."""
        self._failures.take(at)

    def seen(self, deployment: str, now: float) -> Seen:
        """All that is kept of it, as one window until `now`."""
        kept = self._deployments.get(deployment) or DeploymentHistory(deployment)
        parts = kept.tell(now)
        gateways = list(self._gateways.tell(deployment))
        window = join(
            [
                *parts,
                kept.tell_reports(is_telling_seats=not _tell(parts, Signal.SEATS)),
                *gateways,
                self._counts.tell(deployment, is_told_by_gateways=bool(gateways)),
                self._requests.get(deployment, Part()),
                kept.tell_unanswered(now),
                *self._failures.tell(deployment),
                Part(changes=(*self._changes.get(deployment, ()), *self._changes.get("", ()))),
            ],
            end=now,
        )
        return Seen(
            window=window,
            has_failed=deployment in self._failures.names,
            num_replicas=kept.num_running,
            num_telling=len(parts),
            silent=kept.why_silent(),
        )


def _address(replica: ObservedReplica) -> str | None:
    if replica.metrics_address is not None:
        return replica.metrics_address
    address = replica.address
    return address if address is not None and address.startswith(("http://", "https://")) else None


def _tell(parts: Iterable[Part], signal: Signal) -> bool:
    return any(series.signal is signal for part in parts for series in part.series)

"""What the replicas of one deployment showed over the last minutes, and gateways told of it."""

from collections.abc import Sequence

from controlplane.diagnosis.always_on.callers import Callers, callers_of
from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.replica_history import ReplicaHistory
from controlplane.diagnosis.always_on.report_history import ReportHistory, Reports, read_reports
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import HEALTH_KEY, SILENT_KEY, told_of_failures
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.refusals import told_of_refusals
from controlplane.operator.observed import ObservedReplica
from controlplane.operator.page_look import PageLook
from controlplane.operator.restart import Restart


class DeploymentHistory:
    """Of one deployment. `take` what came, in time order."""

    def __init__(self, name: str) -> None:
        self.reports = ReportHistory()
        self.num_running = 0
        """Replicas, asked or not."""
        self.asked_at = 0.0
        """When one of its replicas was last scraped, whatever came of it."""
        self._name = name
        self._callers = Callers.GATEWAYS
        self._replicas: dict[str, ReplicaHistory] = {}

    def take_fleet(
        self,
        replicas: Sequence[ObservedReplica],
        reports: Reports,
        at: float,
        since: float,
    ) -> None:
        """Which replicas it has now; of those that ended nothing is kept. And what gateways report
        of it, kept from `since` on."""
        replica_ids = {each.replica_id for each in replicas}
        self.num_running = len(replica_ids)
        self._replicas = {key: each for key, each in self._replicas.items() if key in replica_ids}
        self._callers = callers_of(replicas)
        load = read_reports(reports, replica_ids, self._name, at)
        if load is not None and self._callers is not Callers.OTHERS:
            self.reports.take(load)
        self.reports.forget_before(since)

    def take(self, page: ScrapedPage, readers: PageReaders, at: float, since: float) -> None:
        """What came of asking one of its replicas; of that one it is kept from `since` on."""
        replica_id = page.target.replica_id
        history = self._replicas.get(replica_id)
        if history is None:
            is_only_observed = page.target.is_observed_only
            history = ReplicaHistory(replica_id, page.place, readers, is_only_observed)
            self._replicas[replica_id] = history
        history.take(page, at)
        history.forget_before(since)
        self.asked_at = at

    def tell(self, now: float) -> list[Part]:
        """Of each replica that tells anything."""
        told = (history.tell(now) for history in self._replicas.values())
        return [part for part in told if part is not None]

    def tell_reports(self, *, is_telling_seats: bool) -> Part:
        """What gateways reported, of all callers or of some."""
        are_apart = self._callers is Callers.APART
        return self.reports.tell(
            is_telling_seats=is_telling_seats and not are_apart,
            is_telling_in_flight=not are_apart,
            are_all_ours=self._callers is Callers.GATEWAYS,
        )

    def tell_unanswered(self, now: float) -> Part:
        """Scrapes that brought nothing, and since when a replica is silent."""
        failed = [each for history in self._replicas.values() for each in history.failed]
        num_all = sum(history.num_scrapes for history in self._replicas.values())
        facts, doubts = told_of_failures(failed, num_all)
        silent = {
            key: round(seconds)
            for key, history in self._replicas.items()
            if (seconds := history.silent_seconds(now)) is not None
        }
        if silent:
            facts = (*facts, *facts_of({SILENT_KEY: silent}, now, is_observed=True))
        health = {
            key: history.health_beside_silence
            for key, history in self._replicas.items()
            if history.health_beside_silence
        }
        if health:
            facts = (*facts, *facts_of({HEALTH_KEY: health}, now, is_observed=True))
        gone = {key: history.refusals for key, history in self._replicas.items()}
        return Part(facts=(*facts, *told_of_refusals(gone)), doubts=doubts)

    def looks(self) -> dict[str, PageLook]:
        """By replica, of those that are only observed and were asked."""
        looks = ((key, history.look()) for key, history in self._replicas.items())
        return {key: look for key, look in looks if look is not None}

    def restarts(self) -> dict[str, Restart]:
        """By replica, the newest of those whose counters began again."""
        last = ((key, history.last_restart) for key, history in self._replicas.items())
        return {key: restart for key, restart in last if restart is not None}

    def why_silent(self) -> dict[str, str]:
        """By replica, of those that were asked and whose last scrape brought nothing."""
        return {
            key: why
            for key, history in self._replicas.items()
            if (why := history.why_silent) is not None
        }

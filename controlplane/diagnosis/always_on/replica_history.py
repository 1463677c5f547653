"""What one replica showed over the last minutes."""

from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.restart_watch import RestartWatch
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.always_on.unheard import Unheard
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape
from controlplane.diagnosis.sources.joining import beside
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.refusals import Refusals
from controlplane.diagnosis.sources.trust import pages
from controlplane.diagnosis.window import Doubt
from controlplane.operator.page_look import PageLook
from controlplane.operator.restart import Restart
from dataplane.engine_metrics.exposition import NotMetricsError
from dataplane.engine_metrics.signal import Signal

_LATENCIES = frozenset({Signal.TTFT, Signal.TPOT, Signal.E2E})
"""Those that an objective may be judged by."""
_SILENT_SECONDS = 30.0
"""What a replica said before it fell silent for longer is no longer how it stands."""


class ReplicaHistory:
    """One replica's. `take` what came of each scrape, in time order."""

    def __init__(
        self, replica_id: str, place: str, readers: PageReaders, is_observed_only: bool = False
    ) -> None:
        self._is_observed_only = is_observed_only
        self._unheard = Unheard()
        self.refusals = Refusals()
        """Of its port, of late."""
        self._replica_id = replica_id
        self._readers = readers
        self._endpoint = readers.create_endpoint({"replica": replica_id}, place)
        self._restarts = RestartWatch()
        self._doubts: list[Doubt] = []
        self.failed: list[FailedScrape] = []
        self._asked: list[float] = []
        self._last_page_at: float | None = None
        self._silent_since: float | None = None

    @property
    def num_scrapes(self) -> int:
        """That are kept, answered or not."""
        return len(self._asked)

    @property
    def why_silent(self) -> str | None:
        """Why the last scrape brought nothing; None: it did, or there was none yet."""
        return self.failed[-1].why if self._is_silent() else None

    def silent_seconds(self, now: float) -> float | None:
        """For how long it has shown nothing, since the first scrape that failed after its last
        page; None where it shows something, or never did, unless it is a server that somebody
        declared and that answers nothing at all."""
        if self._silent_since is None:
            return None
        if self._last_page_at is None:
            since = self._unheard.since if self._is_observed_only else None
            return None if since is None else now - since
        return now - self._silent_since

    @property
    def health_beside_silence(self) -> str:
        """What its health page gave when it was last asked in vain; empty: it was not asked."""
        return self._unheard.health

    def look(self) -> PageLook | None:
        """What came of the last call; None where it was not asked, or is not only observed."""
        if not self._is_observed_only or not self._asked:
            return None
        newest = self._endpoint.newest
        return PageLook(
            at_unix_ns=round(self._asked[-1] * 1e9),
            page=self._endpoint.place if self._last_page_at is not None else None,
            page_at_unix_ns=_unix_ns(self._last_page_at),
            num_running=_whole(newest(Signal.RUNNING)),
            num_waiting=_whole(newest(Signal.WAITING)),
            max_num_seqs=_whole(newest(Signal.SEATS)),
            silence=self._unheard.silence,
            silent_since_unix_ns=_unix_ns(self._unheard.since),
            num_silent=self._unheard.num,
            why=self._unheard.why,
            latency_edges=self._endpoint.edges(_LATENCIES),
        )

    @property
    def last_restart(self) -> Restart | None:
        """The newest that its pages tell of."""
        return self._restarts.last

    def take(self, scraped: ScrapedPage, at: float) -> None:
        """A page, or why there is none: both are observations."""
        self.refusals = _with_call(self.refusals, scraped, at)
        if scraped.is_resting:
            return
        self._asked.append(at)
        self._unheard = self._unheard.after(scraped, at)
        why = self._unheard.why or scraped.why
        if scraped.text is not None:
            try:
                page = self._readers.reader.read(scraped.text, scraped.place)
            except NotMetricsError:  # what it is instead may be nobody's to read
                why = f"it answers no metrics page ({scraped.kind})"
            else:
                samples, doubts = pages.checked(
                    page, at, scraped.place, others_are_complete=True, should_quote=False
                )
                self._endpoint.place = scraped.place
                self._endpoint.take(samples, page.names, at)
                self._restarts.take(self._endpoint.counted())
                self._doubts += doubts
                self._last_page_at, self._silent_since = at, None
                return
        if self._silent_since is None:
            self._silent_since = at
        self.failed.append(FailedScrape(at, self._replica_id, why))

    def forget_before(self, moment: float) -> None:
        """What was seen earlier."""
        self._endpoint.forget_before(moment)
        self._doubts = [each for each in self._doubts if each.at is None or each.at >= moment]
        self.failed = [each for each in self.failed if each.at >= moment]
        self._asked = [at for at in self._asked if at >= moment]

    def tell(self, now: float) -> Part | None:
        """All that is kept. None where there is nothing, or where it fell silent: old values are
        not current."""
        last = self._endpoint.last_moment
        if last is None or (self._is_silent() and now - last > _SILENT_SECONDS):
            return None
        return beside([Part(doubts=tuple(self._doubts)), self._endpoint.tell()])

    def _is_silent(self) -> bool:
        last = self._endpoint.last_moment
        return bool(self.failed) and (last is None or self.failed[-1].at > last)


def _with_call(refusals: Refusals, scraped: ScrapedPage, at: float) -> Refusals:
    """Of one that starts or is to end, nothing."""
    if not scraped.target.is_to_serve:
        return Refusals()
    if scraped.is_resting:
        return refusals
    if scraped.is_refused:
        return refusals.after_refusal(at)
    return refusals.after_silence() if scraped.is_unheard else refusals.after_answer()


def _unix_ns(at: float | None) -> int | None:
    return None if at is None else round(at * 1e9)


def _whole(value: float | None) -> int | None:
    """A count of requests; None: it cannot be one."""
    return round(value) if value is not None and value >= 0 else None

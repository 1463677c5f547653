"""Rounds of scrapes: whose page is asked for now, and what came, in a bounded time.

One thread uses it. A round that is under way ends soon once nobody wants it any more.
"""

import asyncio
import threading
from collections.abc import Iterable, Sequence

import structlog

from controlplane.api.changes import STALE_SECONDS
from controlplane.diagnosis.always_on.gateway_history import FindKey, gateway_targets
from controlplane.diagnosis.always_on.pace import Pace
from controlplane.diagnosis.always_on.rota import Rota
from controlplane.diagnosis.always_on.scraper import ScrapedPage, Scraper
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.turns import Target
from dataplane.report import GatewayReport

_MAX_GATEWAYS = 64
_STOP_SECONDS = 0.2
"""So often scrapes under way are asked whether they are still wanted."""
_log = structlog.get_logger(__name__)


class ScrapeRounds:
    """Of all replicas and gateways of one control plane."""

    def __init__(self, settings: AlwaysOnSettings, stopping: threading.Event) -> None:
        """`stopping`: once it is set a round ends soon, and with nothing."""
        self.num_scrapes = 0
        """Of replicas."""
        self.num_failed_scrapes = 0
        self._settings = settings
        self._stopping = stopping
        self._scraper = Scraper(settings)
        self._runner = asyncio.Runner()
        self._rota = Rota()
        self._pace = Pace(settings)
        self._last_asked: dict[str, float] = {}

    def close(self) -> None:
        """End its connections."""
        self._runner.run(self._scraper.close())
        self._runner.close()

    def forget_others(
        self, targets: Iterable[Target], gateways: Iterable[tuple[GatewayReport, float]]
    ) -> None:
        """What is remembered of any other address."""
        self._scraper.forget_others(
            {each.address for each in targets} | {report.address for report, _ in gateways}
        )

    def ask_replicas(
        self, targets: Sequence[Target], suspects: frozenset[str], now: float
    ) -> list[ScrapedPage]:
        """The pages of those whose turn it is; none where it is to stop."""
        chosen = self._choose(targets, suspects, now)
        known = {each.replica_id for each in targets}
        self._last_asked = {key: at for key, at in self._last_asked.items() if key in known}
        self._last_asked |= {each.replica_id: now for each in chosen}
        pages = self._runner.run(self._fetch(chosen))
        if self._stopping.is_set():
            return []
        asked = [page for page in pages if not page.is_resting]
        self.num_scrapes += len(asked)
        self.num_failed_scrapes += sum(page.text is None for page in asked)
        return pages

    def ask_gateways(
        self, gateways: Iterable[tuple[GatewayReport, float]], find_key: FindKey | None
    ) -> list[ScrapedPage]:
        """Of those whose report is current. A key that cannot be had costs what gateways export,
        and nothing else."""
        reports = [report for report, age in gateways if age < STALE_SECONDS]
        try:
            targets = gateway_targets(reports[:_MAX_GATEWAYS], find_key)
        except OSError as error:
            _log.warning("gateways cannot be asked", error=str(error))
            targets = []
        return self._runner.run(self._fetch(targets))

    def may_be_looked_at(self, deployment: str, last_looked_at: float) -> bool:
        """See `Rota.may_be_looked_at`."""
        return self._rota.may_be_looked_at(deployment, last_looked_at)

    def note_cost(self, cpu_seconds: float) -> None:
        """Of a whole pass: the next rounds are as large as the machine bears."""
        self._pace.take(cpu_seconds)

    def _choose(
        self, targets: Sequence[Target], suspects: frozenset[str], now: float
    ) -> list[Target]:
        if len(targets) <= self._settings.max_scrapes:
            self._rota.ask_all()
            return list(targets)
        most = self._pace.num_scrapes
        return self._rota.choose(targets, suspects, self._last_asked, now, most)

    async def _fetch(self, targets: Sequence[Target]) -> list[ScrapedPage]:
        """None of them where it is to stop before all have answered."""
        scraping = asyncio.ensure_future(self._scraper.scrape(targets))
        while not scraping.done():
            await asyncio.wait({scraping}, timeout=_STOP_SECONDS)
            if self._stopping.is_set() and not scraping.done():
                scraping.cancel()
                await asyncio.wait({scraping})
                return []
        return scraping.result()

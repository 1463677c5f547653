"""The engine's own gauges, read now and then, with the age that they have.

An endpoint is asked for its metrics every other second, since they are long; between two scrapes
it is only asked whether it is there. Where it exports none the gauges are missing, and the
endpoint is no worse for that.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineStats
from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.scrape import Scrape, read_scrape
from dataplane.engine_metrics.signal import Signal
from dataplane.openai_endpoint.http import AnswerUnreadableError, EndpointHttp

METRICS_PATH = "/metrics"
HEALTH_PATH = "/health"
_TIMEOUT_SECONDS = 5.0

_log = logging.getLogger(__name__)

ReadStats = Callable[[Scrape], EngineStats]
"""What a scrape says; its age is set by who scraped."""


class ScrapedStats:
    """One endpoint's gauges. One event loop owns it."""

    def __init__(
        self,
        table: AliasTable,
        signals: Collection[Signal],
        read: ReadStats,
        interval_seconds: float,
        clock: MonotonicClock,
    ) -> None:
        """`signals` that `read` wants, by the names that `table` has for them."""
        self.path = METRICS_PATH
        """Where they are; some servers want to be told of which model."""
        self._table = table
        self._signals = frozenset(signals)
        self._read = read
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._stats: EngineStats | None = None
        self._scraped_at = 0.0
        self._next_at = 0.0
        self._said = ""

    async def stats(self, http: EndpointHttp) -> EngineStats | None:
        """The newest, with its age; None where the endpoint exports nothing of it. Raises
        EngineUnavailableError when it does not answer, or says that it is not well."""
        now = self._clock()
        if now < self._next_at:
            await check_health(http)
        else:
            self._next_at = now + self._interval_seconds
            await self._scrape(http, now)
        if self._stats is None:
            return None
        return replace(self._stats, age_seconds=self._clock() - self._scraped_at)

    async def _scrape(self, http: EndpointHttp, now: float) -> None:
        try:
            response = await http.get(self.path, _TIMEOUT_SECONDS)
        except AnswerUnreadableError as error:
            self._say_once(error.why)
            await check_health(http)
            return
        if response.is_error:
            await check_health(http)
            return
        try:
            scrape = read_scrape(self._table, response.text, self._signals)
        except ValueError as error:
            self._say_once(str(error))  # what was known before grows old
            return
        if scrape.told:
            self._stats, self._scraped_at = self._read(scrape), now

    def _say_once(self, why: str) -> None:
        if why != self._said:
            self._said = why
            _log.warning("its metrics are not read: %s", why)


async def check_health(http: EndpointHttp) -> None:
    """It is there, whatever that is worth. Raises EngineUnavailableError."""
    response = await http.get(HEALTH_PATH, _TIMEOUT_SECONDS)
    if response.is_server_error:
        raise http.unavailable(f"GET {HEALTH_PATH}: it answered {response.status_code}")

"""Asks many replicas for their metrics pages at once; one that does not answer delays nobody."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import httpx

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.turns import Target
from controlplane.diagnosis.sources.live.address import read_address, shown
from controlplane.diagnosis.sources.live.discovery import find_metrics
from controlplane.diagnosis.sources.live.failures import NoMetricsError
from controlplane.diagnosis.sources.live.page import PageError, create_http, get_page
from controlplane.diagnosis.sources.live.silence import (
    ACCEPTED,
    REFUSED,
    answer_of_health,
    try_port,
)
from controlplane.operator.page_look import Silence
from dataplane.clock import MonotonicClock, monotonic_clock

_FIRST_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 300.0
"""Until an endpoint that showed no metrics page is asked again: it may be somebody else's."""
_MAX_FAILED = 12
"""In a row, a minute's: then a page that was known is looked for anew."""
_LONGEST_PAUSE_AFTER_PAGE_SECONDS = 30.0
"""Where there was a page there is likely to be one again, and its end is to be seen; so it is of a
server that somebody declared and that answers nothing."""
_BESIDE_SECONDS = 1.0
"""On top of the deadline of a scrape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedPage:
    """What a replica answered, or why it did not."""

    target: Target
    place: str
    """The URL, without a password."""
    text: str | None
    """None: it did not answer as it should."""
    kind: str = ""
    """Status and content type: what may be told of an answer that is no metrics page."""
    why: str = ""
    is_refused: bool = False
    """Nothing listens at its port."""
    is_unheard: bool = False
    """Nothing came, a refusal or not even that. Otherwise it answered something."""
    silence: Silence | None = None
    """Of one that is only observed: how it is silent. None: it answered something."""
    health: str = ""
    """Of one that takes connections and is silent: what its health page gave."""
    is_resting: bool = False
    """It was not asked: it has no metrics page, and is asked again later."""


@dataclass(slots=True)
class _Known:
    """One address."""

    url: httpx.URL | None = None
    """Of its metrics page, once it was found."""
    was_found: bool = False
    num_failed: int = 0
    """In a row."""
    why: str = ""
    pause_seconds: float = 0.0
    ask_again_at: float = 0.0

    def is_resting(self, now: float, *, is_lost: bool) -> bool:
        """Whether it is to be left alone; one that is lost rests for the shortest pause."""
        shorter = max(0.0, self.pause_seconds - _FIRST_PAUSE_SECONDS) if is_lost else 0.0
        return now < self.ask_again_at - shorter


class Scraper:
    """One event loop's. What it knows of addresses is kept from round to round."""

    def __init__(self, settings: AlwaysOnSettings, clock: MonotonicClock = monotonic_clock) -> None:
        self._settings = settings
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._http: httpx.AsyncClient | None = None

    async def scrape(self, targets: Iterable[Target]) -> list[ScrapedPage]:
        """One round: each target once, several at a time, each within its deadline."""
        if self._http is None:
            self._http = create_http()
        gate = asyncio.Semaphore(self._settings.max_concurrent)
        http = self._http

        async def one(target: Target) -> ScrapedPage:
            async with gate:
                return await self._scrape(http, target)

        return await asyncio.gather(*(one(target) for target in targets))

    def forget_others(self, addresses: Collection[str]) -> None:
        """Of addresses that nobody has any more nothing is kept."""
        self._known = {key: known for key, known in self._known.items() if key in addresses}

    async def close(self) -> None:
        """End its connections."""
        if self._http is not None:
            await self._http.aclose()

    async def _scrape(self, http: httpx.AsyncClient, target: Target) -> ScrapedPage:
        known = self._known.setdefault(target.address, _Known())
        if known.is_resting(self._clock(), is_lost=target.is_lost):
            return ScrapedPage(
                target=target, place=target.address, text=None, why=known.why, is_resting=True
            )
        place = shown(known.url) if known.url is not None else target.address
        try:
            async with asyncio.timeout(self._settings.scrape_deadline_seconds):
                page = await self._ask(http, target, known)
        except TimeoutError:
            is_unheard, is_refused = True, False
            why = f"no answer within {self._settings.scrape_deadline_seconds:g} s"
        except NoMetricsError as error:
            is_unheard, is_refused = error.is_unanswered, error.is_refused
            why = "; ".join(f"{each.url}: {each.kind}" for each in error.tries)
        except PageError as error:
            is_unheard, is_refused, why = error.is_unheard, error.is_refused, str(error)
        except ValueError as error:
            is_unheard, is_refused, why = False, False, str(error)
        else:
            known.was_found, known.num_failed, known.pause_seconds = True, 0, 0.0
            return page
        page = ScrapedPage(
            target=target,
            place=place,
            text=None,
            why=why,
            is_refused=is_refused,
            is_unheard=is_unheard,
        )
        if is_unheard and target.is_observed_only:
            page = await _heard_closer(http, page)
        known.num_failed += 1
        if known.url is None or known.num_failed >= _MAX_FAILED:
            known.url = None  # it may have moved
            self._rest(known, page.why, is_to_return=known.was_found or page.silence is not None)
        return page

    async def _ask(self, http: httpx.AsyncClient, target: Target, known: _Known) -> ScrapedPage:
        if known.url is None and target.page is not None:
            known.url = httpx.URL(target.page)
        if known.url is None:
            page = await find_metrics(http, read_address(target.address))
            known.url = page.url
            return ScrapedPage(target=target, place=shown(page.url), text=page.text)
        answer = await get_page(
            http,
            known.url,
            headers={"authorization": f"Bearer {target.bearer}"} if target.bearer else None,
            max_bytes=self._settings.max_page_bytes,
            seconds=self._settings.scrape_deadline_seconds,
        )
        if not answer.is_success:
            raise PageError(answer.kind)
        return ScrapedPage(
            target=target, place=shown(known.url), text=answer.text, kind=answer.kind
        )

    def _rest(self, known: _Known, why: str, *, is_to_return: bool) -> None:
        known.why = why
        longer = max(_FIRST_PAUSE_SECONDS, 2 * known.pause_seconds)
        known.pause_seconds = min(
            longer,
            _LONGEST_PAUSE_AFTER_PAGE_SECONDS if is_to_return else _LONGEST_PAUSE_SECONDS,
        )
        known.ask_again_at = self._clock() + known.pause_seconds


async def _heard_closer(http: httpx.AsyncClient, page: ScrapedPage) -> ScrapedPage:
    """With how it is silent: a frozen process takes connections, one that is gone does not; a front
    end that is only busy answers its health page first."""
    address = read_address(page.target.address)
    port, health = await asyncio.gather(
        try_port(address.root, _BESIDE_SECONDS), answer_of_health(http, address, _BESIDE_SECONDS)
    )
    if port.startswith(ACCEPTED):
        return replace(page, silence=Silence.TAKEN, health=health, is_refused=False)
    is_refused = port.startswith(REFUSED)
    silence = Silence.REFUSED if is_refused else Silence.LOST
    return replace(page, silence=silence, why=f"its port: {port}", is_refused=is_refused)

"""Somebody who looks every tenth of a second, and wants every look to balance.

Invariant 5, on both surfaces that tell it: arrived = invalid + undecided + rejected + admitted, and
admitted = active + finished. What is held is looked at too: once nothing is in flight, nothing is.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import msgspec

from dataplane import names
from dataplane.lifecycle import RequestCounts
from ops.scraped_counts import counts_by_label

_GAP_SECONDS = 0.1
_SETTLE_SECONDS = 45.0
_MAX_TOLD = 5
_OUTSTANDING = "num_outstanding"


@dataclass(slots=True)
class Scraper:
    """Of one gateway."""

    http: httpx.AsyncClient
    settle_seconds: float = _SETTLE_SECONDS
    """After which what is held is held by nobody's wish."""
    num_scrapes: int = 0
    wrong: list[str] = field(default_factory=list)
    most_held: dict[str, int] = field(default_factory=dict)
    last_held: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    """By the code of the error."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_GAP_SECONDS)

    async def look(self) -> None:
        """Once, at both."""
        text = (await self.http.get("/metrics")).text
        live = (await self.http.get("/internal/requests")).json()
        self.num_scrapes += 1
        scraped = counts_by_label(text, names.GATEWAY_REQUESTS, names.LABEL_STATE)
        self._check("metrics", RequestCounts(**scraped))
        counts = msgspec.convert(live["counts"], RequestCounts)
        self._check("requests", counts)
        if counts.active + counts.undecided > len(live["requests"]):
            self._tell(f"{counts} counts more than the {len(live['requests'])} in flight")
        self.last_held = counts_by_label(text, names.GATEWAY_HELD, names.LABEL_KIND)
        for kind, number in self.last_held.items():
            self.most_held[kind] = max(number, self.most_held.get(kind, 0))
        self.rejected = counts_by_label(text, names.GATEWAY_REJECTED_TOTAL, names.LABEL_REASON)

    async def settle(self) -> None:
        """Wait until nothing is held; what still is after long is wrong."""
        try:
            async with asyncio.timeout(self.settle_seconds):
                while True:
                    await self.look()
                    if not any(self.last_held.values()):
                        break
                    await asyncio.sleep(_GAP_SECONDS)
        except TimeoutError:
            self._tell(f"still held: { {k: n for k, n in self.last_held.items() if n} }")
        broken = (await self.http.get("/internal/holdings")).json()["broken"]
        for why in broken:
            self._tell(why)

    def _check(self, where: str, counts: RequestCounts) -> None:
        try:
            counts.check_integrity()
        except AssertionError as error:
            self._tell(f"{where}: {error}")

    def _tell(self, what: str) -> None:
        if len(self.wrong) < _MAX_TOLD:
            self.wrong.append(what)


@asynccontextmanager
async def scraping(address: str) -> AsyncIterator[Scraper]:
    """While inside, it is looked every tenth of a second; at the end nothing may be held."""
    async with httpx.AsyncClient(base_url=address, timeout=30) as http:
        scraper = Scraper(http)
        task = asyncio.create_task(scraper.run())
        try:
            yield scraper
        finally:
            task.cancel()
            failed = await asyncio.gather(task, return_exceptions=True)
        if failed and isinstance(failed[0], Exception):
            scraper.wrong.append(f"a scrape failed: {failed[0]!r}")
        await scraper.settle()

"""Pages of an engine that were late when the watch began, asked again while it goes on."""

import asyncio
from dataclasses import dataclass, field

import httpx

from controlplane.diagnosis.sources.live.address import Address
from controlplane.diagnosis.sources.live.page import SCRAPE_SECONDS
from controlplane.diagnosis.sources.live.self_description import Description

_MOST_TRIES = 5
"""Each of the time of a scrape at most, and one at a time: a busy engine gets no crowd."""


@dataclass(slots=True)
class LateAnswers:
    """Of one endpoint. Scrapes never wait for it."""

    description: Description
    seconds: float = SCRAPE_SECONDS
    """For each page."""
    _num_tries: int = 0
    _trying: asyncio.Task[None] | None = field(default=None, repr=False)

    def try_again(self, http: httpx.AsyncClient, address: Address) -> None:
        """Starts to ask for what is still late, unless it is being asked for. Raises what
        the try before raised."""
        if self._trying is not None:
            if not self._trying.done():
                return
            self._trying.result()
        if not self.description.late or self._num_tries >= _MOST_TRIES:
            return
        self._num_tries += 1
        self._trying = asyncio.ensure_future(
            self.description.ask_again(http, address, seconds=self.seconds)
        )

    async def give_up(self) -> None:
        """The watch is over: what has not come is not waited for. Raises what a try raised."""
        if self._trying is not None:
            if not self._trying.done():
                self._trying.cancel()
            await asyncio.wait({self._trying})
            if not self._trying.cancelled():
                self._trying.result()

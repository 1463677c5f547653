"""What can be seen of a server that shows no metrics page: that too is evidence.

Whether its port takes connections at all, and what its health page and its list of models answer,
tell a process that is gone from one that stands still, and both from one that only shows no
metrics.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from controlplane.diagnosis.sources.live.address import Address, beside
from controlplane.diagnosis.sources.live.connecting import is_refusal
from controlplane.diagnosis.sources.live.failures import NoMetricsError
from controlplane.diagnosis.sources.live.page import (
    SCRAPE_SECONDS,
    PageAnswer,
    PageError,
    get_page,
)

CONNECTION_KEY = "connection"
METRICS_KEY = "page_answer"
HEALTH_KEY = "health_answer"
MODELS_KEY = "models_answer"
ACCEPTED = "accepted"
"""So the fact `connection` begins where somebody listens."""
REFUSED = "refused"
_CONNECT_SECONDS = 3.0
_PORTS = {"http": 80, "https": 443}
_ENGINES_PAGES = {HEALTH_KEY: "/health", MODELS_KEY: "/v1/models"}


@dataclass(frozen=True, slots=True)
class Silence:
    """Of one address, at one time."""

    said: Mapping[str, str]
    """As `sources.facts` reads them."""
    is_answered: bool
    """By whatever: there is no use in asking for its metrics again."""


async def listen(
    http: httpx.AsyncClient,
    address: Address,
    error: NoMetricsError,
    *,
    seconds: float = SCRAPE_SECONDS,
) -> Silence:
    """Asks what else there is to ask, at once and each within its own bounds."""
    connection, *pages = await asyncio.gather(
        try_port(address.root),
        *(_page(http, beside(address, path), seconds) for path in _ENGINES_PAGES.values()),
    )
    first = error.tries[0]
    said = {CONNECTION_KEY: connection, METRICS_KEY: first.kind or first.answer}
    if connection.startswith(ACCEPTED):
        said |= dict(zip(_ENGINES_PAGES, pages, strict=True))
    return Silence(said, any(each.is_answered for each in error.tries))


async def try_port(root: httpx.URL, seconds: float = _CONNECT_SECONDS) -> str:
    """Whether anybody takes a connection there, in words that begin with ACCEPTED or REFUSED."""
    port = root.port or _PORTS[root.scheme]
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(root.host, port)
    except TimeoutError:
        return f"not taken within {seconds:g} s: the host or the way to it is down"
    except OSError as error:
        if is_refusal(error):
            return f"{REFUSED}: the host is there, and nothing listens at its port {port}"
        return f"failed: {error.strerror or error}"
    writer.close()
    return f"{ACCEPTED} at port {port}"


async def answer_of_health(http: httpx.AsyncClient, address: Address, seconds: float) -> str:
    """Status and kind, or what came in place of an answer."""
    return await _page(http, beside(address, _ENGINES_PAGES[HEALTH_KEY]), seconds)


async def _page(http: httpx.AsyncClient, url: httpx.URL, seconds: float) -> str:
    """Status and kind, and whether it is a list of models; nothing else of what it says."""
    try:
        answer = await get_page(http, url, seconds=seconds)
    except PageError as error:
        return str(error)
    return f"{answer.kind}, a list of models" if _lists_models(answer) else answer.kind


def _lists_models(answer: PageAnswer) -> bool:
    if not answer.is_success:
        return False
    try:
        said = json.loads(answer.text)
    except ValueError:
        return False
    return isinstance(said, dict) and isinstance(said.get("data"), list)

"""One page of somebody's server, within a bound of bytes and of time.

What answers at an address that somebody typed may be anything: a stream that never ends, or one
that drips.
"""

import asyncio
from dataclasses import dataclass

import httpx

from controlplane.diagnosis.sources.decoding import decoded

MAX_PAGE_BYTES = 16 * 2**20
"""The largest pages of engines with many ranks and adapters have some 2 MiB."""
SCRAPE_SECONDS = 5.0


class PageError(Exception):
    """There is no page to be had; the message says what came instead, without the address."""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """A whole answer, whatever its status."""

    status: int
    text: str

    @property
    def is_success(self) -> bool:
        """It is the page."""
        return httpx.codes.is_success(self.status)


async def get_page(
    http: httpx.AsyncClient,
    url: httpx.URL,
    *,
    headers: dict[str, str] | None = None,
    max_bytes: int = MAX_PAGE_BYTES,
    seconds: float = SCRAPE_SECONDS,
) -> PageAnswer:
    """GET it. Raises PageError for whatever is no whole answer in time."""
    data = bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            http.stream("GET", url, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > max_bytes:
                    raise PageError(f"its answer is longer than {max_bytes // 2**20} MiB")
    except TimeoutError as error:
        came = f"{len(data)} bytes of an answer" if data else "no answer"
        raise PageError(f"{came} within {seconds:g} s") from error
    except httpx.HTTPError as error:
        raise PageError(said(error)) from error
    return PageAnswer(response.status_code, decoded(bytes(data)))


def said(error: httpx.HTTPError) -> str:
    """What happened, in words; many errors of connections have none of their own."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

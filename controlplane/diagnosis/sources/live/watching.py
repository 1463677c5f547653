"""Scraping one engine or several for a while, into one window on the Unix clock.

Each endpoint is found first (`discovery`), asked who it is (`self_description`), and then scraped
at regular times. A scrape that fails is an observation like any other.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import httpx

from controlplane.diagnosis.sources.decoding import decoded
from controlplane.diagnosis.sources.exposition import ExpositionReader, NotMetricsError
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.live.address import Address, read_address, shown
from controlplane.diagnosis.sources.live.discovery import MetricsPage, find_metrics, said
from controlplane.diagnosis.sources.live.probing import PROBE_KEY, probe
from controlplane.diagnosis.sources.live.self_description import Said, ask
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import EngineName, Window

_SCRAPE_TIMEOUT_SECONDS = 5.0
_CONNECT_TIMEOUT_SECONDS = 3.0
_PROBE_DEADLINE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the watch is."""

    seconds: float
    of_seconds: float
    num_scrapes: int
    num_failed: int


@dataclass(slots=True)
class _Watched:
    """One endpoint while it is watched."""

    page: MetricsPage
    label: str
    snapshots: list[Snapshot]
    said: Said
    failed: list[FailedScrape] = field(default_factory=list)
    probed: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {"replica": self.label} if self.label else {}


async def watch(
    urls: Sequence[str],
    *,
    seconds: float = 60.0,
    every: float = 1.0,
    should_probe: bool = False,
    probe_deadline_seconds: float = _PROBE_DEADLINE_SECONDS,
    headers: dict[str, str] | None = None,
    clock: Callable[[], float] = time.time,
    enough: asyncio.Event | None = None,
) -> AsyncIterator[Progress | Window]:
    """Progress after each round of scrapes; the window at the end, and nothing after it. Once
    `enough` is set that end has come.

    Nothing is sent but GET requests, unless `should_probe`: then one completion of one token for
    each endpoint, after the last scrape. Raises ValueError for what is no address, NoMetricsError
    where one of `urls` has no metrics page.
    """
    addresses = [read_address(url) for url in urls]
    timeout = httpx.Timeout(_SCRAPE_TIMEOUT_SECONDS, connect=_CONNECT_TIMEOUT_SECONDS)
    async with httpx.AsyncClient(timeout=timeout, headers=headers, follow_redirects=True) as http:
        watched = await _begin(http, addresses, clock)
        async for progress in _scrape_on(
            http, watched, seconds, every, clock, enough or asyncio.Event()
        ):
            yield progress
        if should_probe:
            await asyncio.gather(*(_probe(http, each, probe_deadline_seconds) for each in watched))
    parts = [_part(each, clock()) for each in watched]
    yield join(parts)


async def _begin(
    http: httpx.AsyncClient, addresses: Sequence[Address], clock: Callable[[], float]
) -> list[_Watched]:
    labels = _labels(addresses)
    pages = await asyncio.gather(*(find_metrics(http, each) for each in addresses))
    watched = []
    for page, label in zip(pages, labels, strict=True):
        first = Snapshot(
            at=clock(),
            text=page.text,
            place=shown(page.url),
            labels={"replica": label} if label else {},
        )
        engine = series_of([first]).engine
        said_of_itself = await ask(http, page.address, engine.name if engine else None)
        watched.append(_Watched(page, label, [first], said_of_itself))
    return watched


def _labels(addresses: Sequence[Address]) -> list[str]:
    """None where there is one; the shortest that tell them apart."""
    if len(addresses) == 1:
        return [""]
    short = [each.label for each in addresses]
    if len(set(short)) == len(short):
        return short
    return [str(each.metrics[0]) for each in addresses]


async def _scrape_on(
    http: httpx.AsyncClient,
    watched: Sequence[_Watched],
    seconds: float,
    every: float,
    clock: Callable[[], float],
    enough: asyncio.Event,
) -> AsyncIterator[Progress]:
    began, start = time.monotonic(), asyncio.get_running_loop().time()
    num_rounds = max(1, round(seconds / every))
    for index in range(1, num_rounds + 1):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(start + index * every):
                await enough.wait()
        await asyncio.gather(*(_scrape(http, each, clock) for each in watched))
        yield Progress(
            seconds=min(seconds, time.monotonic() - began),
            of_seconds=seconds,
            num_scrapes=sum(len(each.snapshots) for each in watched),
            num_failed=sum(len(each.failed) for each in watched),
        )
        if enough.is_set() or time.monotonic() - began >= seconds:
            return


async def _scrape(http: httpx.AsyncClient, watched: _Watched, clock: Callable[[], float]) -> None:
    at = clock()
    try:
        response = await http.get(watched.page.url)
        response.raise_for_status()
        text = decoded(response.content)
        ExpositionReader().read(text[:_ENOUGH_TO_KNOW], shown(watched.page.url))
    except httpx.HTTPStatusError as error:
        watched.failed.append(
            FailedScrape(at, shown(watched.page.url), f"{error.response.status_code}")
        )
    except httpx.HTTPError as error:
        watched.failed.append(FailedScrape(at, shown(watched.page.url), said(error)))
    except NotMetricsError as error:
        watched.failed.append(FailedScrape(at, shown(watched.page.url), error.what))
    else:
        watched.snapshots.append(
            Snapshot(at=at, text=text, place=shown(watched.page.url), labels=watched.labels)
        )


_ENOUGH_TO_KNOW = 2000
"""Characters, whether it is a metrics page."""


async def _probe(http: httpx.AsyncClient, watched: _Watched, deadline_seconds: float) -> None:
    model = watched.said.get("model")
    watched.probed = await probe(
        http, watched.page.address, None if model is None else str(model), deadline_seconds
    )


def _part(watched: _Watched, now: float) -> Part:
    part = series_of(watched.snapshots)
    asked_at = watched.snapshots[0].at
    failures, doubts = told_of_failures(
        watched.failed, len(watched.snapshots) + len(watched.failed)
    )
    probed = facts_of({PROBE_KEY: watched.probed}, now) if watched.probed is not None else ()
    version = watched.said.get("version")
    engine = part.engine
    if engine is not None and version is not None:
        engine = EngineName(name=engine.name, version=str(version))
    return Part(
        series=part.series,
        histograms=part.histograms,
        facts=(*part.facts, *facts_of(watched.said, asked_at), *failures, *probed),
        doubts=(*part.doubts, *doubts),
        exported_names=part.exported_names,
        engine=engine,
        start=part.start,
        end=now,
    )

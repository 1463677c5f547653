"""Scraping one engine or several for a while, into one window on the Unix clock.

Each endpoint is found first (`discovery`), asked who it is (`self_description`), and then scraped
at regular times. A scrape that fails is an observation like any other, and to a server that shows
no metrics page one listens all the same (`silence`).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.live.address import Address, read_address, shown
from controlplane.diagnosis.sources.live.discovery import MetricsPage, find_metrics
from controlplane.diagnosis.sources.live.failures import NoMetricsError, StoppedError
from controlplane.diagnosis.sources.live.late_answers import LateAnswers
from controlplane.diagnosis.sources.live.page import (
    SCRAPE_SECONDS,
    PageError,
    create_http,
    get_page,
)
from controlplane.diagnosis.sources.live.probing import PROBE_KEY, probe
from controlplane.diagnosis.sources.live.self_description import Description, ask
from controlplane.diagnosis.sources.live.silence import Silence, listen
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.refusals import Refusals, told_of_refusals
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import EngineName, Window
from dataplane.engine_metrics.exposition import ExpositionReader, NotMetricsError

T = TypeVar("T")
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

    address: Address
    url: httpx.URL
    """Of its metrics; where none was found, the first place to look again."""
    label: str
    snapshots: list[Snapshot] = field(default_factory=list)
    answers: LateAnswers = field(default_factory=lambda: LateAnswers(Description({})))
    """To what it was asked about itself."""
    failed: list[FailedScrape] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)
    probed: str | None = None
    silence: Silence | None = None
    """Where none was found."""

    @property
    def place(self) -> str:
        """As findings may cite it."""
        return shown(self.url)

    @property
    def name(self) -> str:
        """As facts tell it from others, and its series."""
        return self.label or self.place

    @property
    def labels(self) -> dict[str, str]:
        """Of its series: which of several it is."""
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
    where none of `urls` has a metrics page, with a window of what was seen all the same, and
    without where none of their hosts has an address; StoppedError where `enough` came before
    anything was seen.
    """
    addresses = [read_address(url) for url in urls]
    enough = enough or asyncio.Event()
    began = time.monotonic()
    async with create_http(headers) as http:
        watched, failure = await _unless(
            enough,
            _begin(
                http, addresses, clock, min(SCRAPE_SECONDS, max(_LEAST_SCRAPE_SECONDS, seconds))
            ),
        )
        if failure is None or not any(_is_answered(each) for each in watched):
            # What silence took is of the time that was given.
            taken = 0.0 if failure is None else time.monotonic() - began
            try:
                async for progress in _scrape_on(
                    http, watched, max(0.0, seconds - taken), every, clock, enough
                ):
                    yield progress
            finally:
                await asyncio.gather(*(each.answers.give_up() for each in watched))
        if should_probe:
            await asyncio.gather(*(_probe(http, each, probe_deadline_seconds) for each in watched))
    window = join(part for each in watched for part in _parts(each, clock()))
    if failure is not None and not any(each.snapshots for each in watched):
        raise NoMetricsError(failure.url, failure.tries, window)
    yield window


async def _unless(enough: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What comes of `work`; raises StoppedError where `enough` comes first."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(enough.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise StoppedError
        return working.result()
    finally:
        working.cancel()
        stopping.cancel()


def _is_answered(watched: _Watched) -> bool:
    return watched.silence is not None and watched.silence.is_answered


async def _begin(
    http: httpx.AsyncClient,
    addresses: Sequence[Address],
    clock: Callable[[], float],
    seconds: float,
) -> tuple[list[_Watched], NoMetricsError | None]:
    """One that does not answer is an observation; where none does, also why."""
    found = await asyncio.gather(
        *(find_metrics(http, each, seconds=seconds) for each in addresses), return_exceptions=True
    )
    unknown = [each for each in found if isinstance(each, NoMetricsError) and each.is_host_unknown]
    if len(unknown) == len(found):
        raise unknown[0]
    watched = []
    for page, address, label in zip(found, addresses, _labels(addresses), strict=True):
        if isinstance(page, NoMetricsError):
            watched.append(await _silent(http, page, address, label, clock(), seconds))
        elif isinstance(page, BaseException):
            raise page
        else:
            watched.append(await _answering(http, page, label, clock()))
    failures = [each for each in found if isinstance(each, NoMetricsError)]
    return watched, failures[0] if len(failures) == len(watched) else None


async def _silent(
    http: httpx.AsyncClient,
    error: NoMetricsError,
    address: Address,
    label: str,
    at: float,
    seconds: float,
) -> _Watched:
    watched = _Watched(address, address.metrics[0], label)
    watched.silence = await listen(http, address, error, seconds=seconds)
    if not error.is_unanswered:
        watched.refusals = watched.refusals.after_answer()
    watched.failed.append(FailedScrape(at, watched.name, error.tries[0].answer))
    return watched


async def _answering(http: httpx.AsyncClient, page: MetricsPage, label: str, at: float) -> _Watched:
    watched = _Watched(page.address, page.url, label)
    first = Snapshot(at=at, text=page.text, place=watched.place, labels=watched.labels)
    engine = series_of([first]).engine
    watched.snapshots.append(first)
    watched.refusals = watched.refusals.after_answer()
    name = engine.name if engine else None
    described = await ask(http, page.address, name, seconds=_FIRST_ASK_SECONDS)
    watched.answers = LateAnswers(described)
    return watched


_FIRST_ASK_SECONDS = 2.0
"""What comes later is asked for beside the scrapes, which would wait for it here."""


def _labels(addresses: Sequence[Address]) -> list[str]:
    """None where there is one; the shortest that tell them apart."""
    if len(addresses) == 1:
        return [""]
    short = [each.label for each in addresses]
    if len(set(short)) == len(short):
        return short
    return [shown(each.metrics[0]) for each in addresses]


async def _scrape_on(
    http: httpx.AsyncClient,
    watched: Sequence[_Watched],
    seconds: float,
    every: float,
    clock: Callable[[], float],
    enough: asyncio.Event,
) -> AsyncIterator[Progress]:
    began, start = time.monotonic(), asyncio.get_running_loop().time()
    is_silent = not any(each.snapshots for each in watched)
    most = min(seconds, _SILENT_SECONDS) if is_silent else seconds
    num_rounds = round(seconds / every) or int(not is_silent)
    for index in range(1, num_rounds + 1):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(start + index * every):
                await enough.wait()
        left = max(_LEAST_SCRAPE_SECONDS, began + most - time.monotonic())
        await asyncio.gather(
            *(_scrape(http, each, clock, min(SCRAPE_SECONDS, left)) for each in watched)
        )
        for each in watched:
            each.answers.try_again(http, each.address)
        yield Progress(
            seconds=min(seconds, time.monotonic() - began),
            of_seconds=seconds,
            num_scrapes=sum(len(each.snapshots) for each in watched),
            num_failed=sum(len(each.failed) for each in watched),
        )
        is_silent = not any(each.snapshots for each in watched)
        most = min(seconds, _SILENT_SECONDS) if is_silent else seconds
        if enough.is_set() or time.monotonic() - began >= most:
            return


_LEAST_SCRAPE_SECONDS = 1.0
"""An engine at work may take so long for a page, also for the last of a watch."""
_SILENT_SECONDS = 15.0
"""Nothing more comes of a server that answers nothing for so long; three scrapes time out."""


async def _scrape(
    http: httpx.AsyncClient, watched: _Watched, clock: Callable[[], float], seconds: float
) -> None:
    at, place = clock(), watched.place
    try:
        answer = await get_page(http, watched.url, seconds=seconds)
        if not answer.is_success:
            raise PageError(str(answer.status))
        beginning = answer.text[:_ENOUGH_TO_KNOW].rpartition("\n")[0] or answer.text
        ExpositionReader().read(beginning, place)
    except PageError as error:
        watched.failed.append(FailedScrape(at, watched.name, str(error)))
        watched.refusals = _with_failure(watched.refusals, error, at)
    except NotMetricsError as error:
        watched.failed.append(FailedScrape(at, watched.name, error.what))
        watched.refusals = watched.refusals.after_answer()
    else:
        watched.refusals = watched.refusals.after_answer()
        watched.snapshots.append(
            Snapshot(at=at, text=answer.text, place=place, labels=watched.labels)
        )


def _with_failure(refusals: Refusals, error: PageError, at: float) -> Refusals:
    if error.is_refused:
        return refusals.after_refusal(at)
    return refusals.after_silence() if error.is_unheard else refusals.after_answer()


_ENOUGH_TO_KNOW = 2000
"""Characters, whether it is a metrics page."""


async def _probe(http: httpx.AsyncClient, watched: _Watched, deadline_seconds: float) -> None:
    model = watched.answers.description.said.get("model")
    watched.probed = await probe(
        http, watched.address, None if model is None else str(model), deadline_seconds
    )


def _parts(watched: _Watched, now: float) -> Iterator[Part]:
    """What its pages tell, what it says of itself, how scrapes failed, and what was tried."""
    pages = series_of(watched.snapshots) if watched.snapshots else Part(start=watched.failed[0].at)
    said = watched.answers.description.said
    version = said.get("version")
    engine = pages.engine
    if engine is not None and version is not None:
        engine = EngineName(name=engine.name, version=str(version))
    yield replace(pages, engine=engine)
    yield Part(facts=facts_of(said, now if pages.start is None else pages.start))
    num_all = len(watched.snapshots) + len(watched.failed)
    failures, doubts = told_of_failures(watched.failed, num_all)
    if _is_answered(watched) and not watched.snapshots:
        failures = ()  # its one answer is told already, by what was asked
    yield Part(facts=failures, doubts=doubts)
    yield Part(facts=told_of_refusals({watched.label: watched.refusals}))
    seen: dict[str, object] = dict(watched.silence.said) if watched.silence is not None else {}
    if watched.probed is not None:
        seen[PROBE_KEY] = watched.probed
    yield Part(facts=tuple(_told_of(watched.label, seen, now)), end=now)


def _told_of(label: str, seen: Mapping[str, object], now: float) -> Iterator[Fact]:
    """Of one of several each thing is told as a part, under its name."""
    for key, value in seen.items():
        facts = facts_of({key: {label: value} if label else value}, now, is_observed=True)
        yield from (fact for fact in facts if fact.part or not label)

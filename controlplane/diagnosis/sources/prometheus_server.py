"""The same signals from a Prometheus server, over a stretch of time.

Raw samples are asked for (a range selector), as they were scraped: a query over steps would repeat
the last value for five minutes and hide when nothing was scraped. Samples that one target has at
one time were one page, and are read like one.
"""

import itertools
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.sources.endpoint import Endpoint
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.live.address import shown
from controlplane.diagnosis.sources.live.page import PageAnswer, PageError, create_http, get_answer
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.window import Doubt, DoubtKind, Window
from dataplane.engine_metrics.exposition import Page, Sample, SampleHead
from dataplane.engine_metrics.gathering import Gatherer
from dataplane.engine_metrics.targets import is_read

_NAMES_PER_QUERY = 40
_TIMEOUT_SECONDS = 30.0
_MAX_BYTES = 256 * 2**20
"""Of one answer: raw samples of many targets over an hour are some 20 MiB."""
_NAME_ONE = "give the address of a Prometheus server, such as http://host:9090"
_SELECTOR = 'a selector is written as in Prometheus: job="vllm",namespace="prod"'
_LESS = "ask for less, with a shorter --since or a --selector"
_KEY = "give the key that it wants with --engine-key-file"
_OF_THE_SCRAPE = frozenset({"instance", "job", "__name__"})
_LATE_INTERVALS = 2.5
"""So many scrape intervals without a sample: the target is no longer scraped."""
_COARSE_SECONDS = 30.0
"""A queue that comes and goes within an interval leaves no trace in gauges."""

TargetKey = tuple[str, str]
"""job and instance."""


class PrometheusError(Exception):
    """The server does not answer as a Prometheus does, or has none of what is needed."""

    def __init__(self, url: str, what: str, remedy: str) -> None:
        self.url = url
        self.what = what
        self.remedy = remedy
        super().__init__(f"{url}: {what}; {remedy}")


@dataclass(slots=True)
class _Target:
    """What was scraped of one target, by time."""

    pages: dict[float, list[Sample]]
    heads: set[SampleHead]
    down: list[float]

    @property
    def interval_seconds(self) -> float | None:
        """Median time between two pages; None with fewer than two."""
        moments = sorted(self.pages)
        gaps = [after - before for before, after in itertools.pairwise(moments)]
        return statistics.median(gaps) if gaps else None


async def read_prometheus(
    url: str,
    *,
    start: float,
    end: float,
    selector: str = "",
    headers: Mapping[str, str] | None = None,
) -> Window:
    """All that the server has of engines between two Unix times. `selector` narrows it down:
    `job="vllm",namespace="prod"`, with or without braces. Raises PrometheusError."""
    address = url.rstrip("/").removesuffix("/api/v1")
    root = _shown(address)
    async with create_http(headers) as http:
        bare = selector.strip().removeprefix("{").removesuffix("}")
        server = _Server(http, httpx.URL(address), root, bare)
        names = await server.names(start, end)
        wanted = sorted(name for name in names if is_read(name))
        if not wanted:
            raise PrometheusError(
                root,
                f"none of its {len(names)} names of series there is an engine's"
                + (f" with {{{server.selector}}}" if server.selector else ""),
                "widen the time or the selector, or let it scrape the engines' /metrics",
            )
        targets: dict[TargetKey, _Target] = {}
        for first in range(0, len(wanted), _NAMES_PER_QUERY):
            found = await server.samples(wanted[first : first + _NAMES_PER_QUERY], start, end)
            _take(targets, found)
        _take_down(targets, await server.samples(["up"], start, end))
    return _window(root, targets, start, end)


@dataclass(frozen=True, slots=True)
class _Server:
    http: httpx.AsyncClient
    address: httpx.URL
    url: str
    """The same as it may be shown."""
    selector: str

    async def names(self, start: float, end: float) -> list[str]:
        """Of all series in that time."""
        match = f'{{__name__=~".+"{self._also}}}'
        params = {"match[]": match, "start": str(start), "end": str(end)}
        return [str(name) for name in await self._get("/api/v1/label/__name__/values", params)]

    async def samples(self, names: Sequence[str], start: float, end: float) -> list[Any]:
        """Raw samples of series with these names."""
        either = "|".join(names)
        span = max(1, round((end - start) * 1000))
        query = f'{{__name__=~"{either}"{self._also}}}[{span}ms]'
        answer = await self._get("/api/v1/query", {"query": query, "time": str(end)})
        return list(answer["result"])

    @property
    def _also(self) -> str:
        return f",{self.selector}" if self.selector else ""

    async def _get(self, path: str, params: Mapping[str, str]) -> Any:
        try:
            page = await self._ask("POST", path, params)
            if page.status == httpx.codes.METHOD_NOT_ALLOWED:
                page = await self._ask("GET", path, params)
        except PageError as error:
            raise PrometheusError(self.url, f"no answer ({error})", _NAME_ONE) from error
        try:
            answer = json.loads(page.text)
        except ValueError:
            answer = None
        told = answer.get("status") if isinstance(answer, dict) else None
        if told == "error":
            raise PrometheusError(
                self.url,
                str(answer.get("error", f"{path} answered {page.status}")),
                _SELECTOR if self.selector else _LESS,
            )
        if told != "success" or "data" not in answer:
            raise PrometheusError(
                self.url,
                f"{path} answered {page.status}, and not as a Prometheus does",
                _KEY if page.status in (401, 403) else _no_prometheus(self.url),
            )
        return answer["data"]

    async def _ask(self, method: str, path: str, params: Mapping[str, str]) -> PageAnswer:
        url = self.address.copy_with(path=f"{self.address.path.rstrip('/')}{path}")
        request = (
            self.http.build_request(method, url, data=dict(params))
            if method == "POST"
            else self.http.build_request(method, url, params=dict(params))
        )
        return await get_answer(self.http, request, max_bytes=_MAX_BYTES, seconds=_TIMEOUT_SECONDS)


def _no_prometheus(url: str) -> str:
    return (
        f"if it is an engine, `pilothouse diagnose {url}` watches it; otherwise {_NAME_ONE}, with "
        "the path before /api if it has one"
    )


def _shown(address: str) -> str:
    """The address as it may be shown: without a password. Raises PrometheusError."""
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        hidden = re.sub(r"//[^/@]*@", "//", address)
        raise PrometheusError(hidden, "is no address", _NAME_ONE)
    return shown(url).rstrip("/")


def _take(targets: dict[TargetKey, _Target], found: Iterable[Any]) -> None:
    for series in found:
        labels = series["metric"]
        key = (labels.get("job", ""), labels.get("instance", ""))
        target = targets.setdefault(key, _Target({}, set(), []))
        head = SampleHead(
            labels["__name__"],
            {name: text for name, text in labels.items() if name not in _OF_THE_SCRAPE},
        )
        target.heads.add(head)
        for at, value in series["values"]:
            target.pages.setdefault(float(at), []).append(Sample(head, float(value), None))


def _take_down(targets: dict[TargetKey, _Target], found: Iterable[Any]) -> None:
    """`up` of targets that engines' series are of."""
    for series in found:
        labels = series["metric"]
        target = targets.get((labels.get("job", ""), labels.get("instance", "")))
        if target is not None:
            target.down += [float(at) for at, value in series["values"] if float(value) == 0]


def _window(url: str, targets: Mapping[TargetKey, _Target], start: float, end: float) -> Window:
    gatherer = Gatherer()
    parts = []
    for (job, instance), target in sorted(targets.items()):
        place = f"{url} {job}/{instance}"
        labels = {"replica": instance} if len(targets) > 1 else {}
        endpoint = Endpoint(labels, place, SourceKind.PROMETHEUS, gatherer)
        names = Page(
            tuple(Sample(head, 0.0, None) for head in target.heads), (), {}, is_complete=True
        ).names
        for at in sorted(target.pages):
            endpoint.take(target.pages[at], names, at)
        parts += [endpoint.tell(), _about(place, target, end)]
    parts.append(Part(start=start, end=end))
    return join(parts)


def _about(place: str, target: _Target, end: float) -> Part:
    """How it was scraped."""
    interval = target.interval_seconds
    last = max(target.pages)
    facts: list[Fact] = []
    doubts: list[Doubt] = []
    if interval is not None:
        facts += facts_of({"scrape_interval_s": f"{interval:g}"}, end, is_observed=True)
        if interval >= _COARSE_SECONDS:
            doubts.append(
                Doubt(
                    kind=DoubtKind.MISSING,
                    name=place,
                    what=f"{place} is scraped every {interval:g} s: what comes and goes between "
                    "two scrapes is in no gauge",
                )
            )
        if end - last > max(_LATE_INTERVALS * interval, 1.0):
            doubts.append(
                Doubt(
                    kind=DoubtKind.STUCK,
                    name=place,
                    what=f"{place} was scraped last {end - last:.0f} s before the end, at an "
                    f"interval of {interval:g} s: it is gone, or Prometheus no longer reaches it",
                    at=last,
                )
            )
    failed = [FailedScrape(at, place, "up was 0") for at in target.down]
    more_facts, more_doubts = told_of_failures(failed, len(target.pages) + len(failed))
    return Part(facts=(*facts, *more_facts), doubts=(*doubts, *more_doubts))

"""What is drawn over time: one chart a figure, over buckets of what was counted and reported.

A bucket that is None is a gap, and so is a figure that its bucket does not have: never 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controlplane.store.latency_buckets import quantile
from controlplane.store.series import BucketCounts

_FINISHED = ("stop", "length", "cancelled")
_TURNED_AWAY = ("rejected", "shed", "deadline")
_FAILED = ("error", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart. None: not known for that bucket."""

    name: str
    label: str
    values: list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines that share an axis."""

    name: str
    title: str
    unit: str
    """req/s, share, budget (a share that may be below 0), seconds, tok/s or requests."""
    note: str
    """What is exact about it, and what is not."""
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Buckets of a span with their lengths in seconds, as many of these as of those."""

    counts: Sequence[BucketCounts | None]
    seconds: Sequence[int]

    def line(self, name: str, label: str, of: Callable[[BucketCounts], float | None]) -> Line:
        """A figure of each bucket."""
        values = [None if each is None else of(each) for each in self.counts]
        return Line(name=name, label=label, values=[_rounded(value) for value in values])

    def rate(self, name: str, label: str, *measures: str) -> Line:
        """Counts of all these measures, each second."""
        values = [
            None if each is None else sum(each.counts.get(m, 0) for m in measures) / seconds
            for each, seconds in zip(self.counts, self.seconds, strict=True)
        ]
        return Line(name=name, label=label, values=[_rounded(value) for value in values])

    def ended(self, name: str, label: str, words: tuple[str, ...]) -> Line:
        """Requests that ended with one of these dispositions, each second."""
        return self.rate(name, label, *(f"disposition.{word}" for word in words))


def create_charts(counts: Sequence[BucketCounts | None], seconds: Sequence[int]) -> list[Chart]:
    """All of them, over the same buckets; `seconds` has the length of each."""
    buckets = _Buckets(counts, seconds)
    return [each(buckets) for each in (_requests, _attainment, _ttft, _tokens, _load)]


def _requests(buckets: _Buckets) -> Chart:
    return Chart(
        name="requests",
        title="Requests",
        unit="req/s",
        note="Exact, counted at the minute of arrival once a request ended.",
        lines=[
            buckets.rate("offered", "offered", "offered"),
            buckets.ended("finished", "finished", _FINISHED),
            buckets.ended("rejected", "rejected or expired", _TURNED_AWAY),
            buckets.ended("failed", "failed", _FAILED),
        ],
    )


def _attainment(buckets: _Buckets) -> Chart:
    return Chart(
        name="attainment",
        title="Attainment",
        unit="share",
        note="Exact: in-contract share of what was offered, malformed requests aside.",
        lines=[buckets.line("attainment", "in contract", _in_contract_share)],
    )


def _in_contract_share(bucket: BucketCounts) -> float | None:
    counts = bucket.counts
    asked = counts.get("offered", 0) - counts.get("disposition.invalid", 0)
    if not counts.get("in_contract.total") or asked <= 0:
        return None
    return counts.get("in_contract.good", 0) / asked


def _ttft(buckets: _Buckets) -> Chart:
    return Chart(
        name="ttft",
        title="TTFT",
        unit="seconds",
        note="From counts in buckets 19 % wide, so off by less than that; "
        "of requests that had a first token.",
        lines=[
            buckets.line("ttft_p50", "p50", lambda bucket: quantile(bucket.ttft, 0.5)),
            buckets.line("ttft_p95", "p95", lambda bucket: quantile(bucket.ttft, 0.95)),
        ],
    )


def _tokens(buckets: _Buckets) -> Chart:
    return Chart(
        name="tokens",
        title="Tokens",
        unit="tok/s",
        note="Exact, counted at the minute of arrival once a request ended.",
        lines=[
            buckets.rate("tokens_in", "prompt", "tokens.input"),
            buckets.rate("tokens_reused", "of them reused", "tokens.cached"),
            buckets.rate("tokens_out", "output", "tokens.output"),
        ],
    )


def _load(buckets: _Buckets) -> Chart:
    return Chart(
        name="load",
        title="Load",
        unit="requests",
        note="Means of what gateways reported about every second.",
        lines=[
            buckets.line("active", "active", lambda bucket: bucket.active),
            buckets.line("queued", "queued", lambda bucket: bucket.queued),
        ],
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")

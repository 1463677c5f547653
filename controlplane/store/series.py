"""Request data over time: counts summed into buckets, and what gateways showed meanwhile.

All of it is read from the exact counts per minute and never from the rows: a week costs the
same whether it saw a thousand requests or ten million.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, distinct, func, or_, select, text
from sqlalchemy.orm import Session

from controlplane.store.counts import HOUR_SECONDS
from controlplane.store.request_tables import HourCountRow, MinuteCountRow
from controlplane.store.upsert import upsert

TTFT_PREFIX = "ttft."
"""Before the number of a latency bucket (see latency_buckets)."""
SAMPLED_GATEWAYS = "sampled.gateways"
SAMPLED_ACTIVE = "sampled.active_milli"
SAMPLED_QUEUED = "sampled.queued_milli"
_SAMPLED = (SAMPLED_GATEWAYS, SAMPLED_ACTIVE, SAMPLED_QUEUED)
_COUNTED = (
    "offered", "in_contract.good", "in_contract.total", "tokens.input", "tokens.output",
    "tokens.cached",
)  # fmt: skip

# In the index's own words: that is how a database sees that the index serves.
_IS_SAMPLED = text("minute_counts.measure LIKE 'sampled.%'")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSpan:
    """Which time, in seconds since the epoch, cut into which buckets."""

    start_unix: int
    """A whole minute."""
    end_unix: int
    """A whole minute; not part of it any more. The last bucket may be cut off by it."""
    step_seconds: int
    """Whole minutes."""

    @property
    def bucket_seconds(self) -> list[int]:
        """How long each bucket is: all a step, but for a last one that is still under way."""
        whole, rest = divmod(self.end_unix - self.start_unix, self.step_seconds)
        return [self.step_seconds] * whole + ([rest] if rest else [])


@dataclass(slots=True, kw_only=True)
class BucketCounts:
    """One bucket. A measure that is absent was not counted, which is 0 where others were."""

    counts: dict[str, int] = field(default_factory=dict)
    ttft: dict[int, int] = field(default_factory=dict)
    """Requests by latency bucket."""
    num_sampled_minutes: int = 0
    """Minutes in which any gateway was heard."""
    active: float | None = None
    """Mean over those minutes; None: no gateway was heard."""
    queued: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteSample:
    """What gateways showed in one minute: means over their reports, added up over gateways."""

    minute_unix: int
    deployment: str
    """"": all of them."""
    num_gateways: int
    active: float
    queued: float | None
    """None: the gateways do not say it for this deployment."""


def read_series(
    session: Session, span: SeriesSpan, deployment: str | None = None, tenant: str | None = None
) -> dict[int, BucketCounts]:
    """Buckets by their number from the start, those that hold anything at all.

    With `tenant`, only what was counted for it; gauges are nobody's in particular and absent.
    """
    buckets: dict[int, BucketCounts] = {}
    for part in _parts(span):
        for at_unix, measure, value in session.execute(_counts_query(part, deployment, tenant)):
            number = (int(at_unix) - span.start_unix) // span.step_seconds
            _add_count(buckets.setdefault(number, BucketCounts()), measure, int(value))
    if tenant is None:
        _add_samples(session, span, deployment, buckets)
    return buckets


def heard_buckets(session: Session, span: SeriesSpan) -> set[int]:
    """Numbers of the buckets in which any gateway was heard: where nothing counted means zero."""
    query = (
        select(_bucket_number(span))
        .where(
            *_within(span),
            _IS_SAMPLED,
            MinuteCountRow.deployment == "",
            MinuteCountRow.measure == SAMPLED_GATEWAYS,
        )
        .distinct()
    )
    return {int(each) for each in session.scalars(query)}


def count_by_class(
    session: Session, deployment: str, contract_revision: str, since_unix: int, until_unix: int
) -> dict[str, dict[str, int]]:
    """Exact good and total counts of what was judged by that contract, by class and measure."""
    totals: dict[str, dict[str, int]] = {}
    rows = session.execute(
        select(MinuteCountRow.request_class, MinuteCountRow.measure, func.sum(MinuteCountRow.value))
        .where(
            MinuteCountRow.minute_unix >= since_unix,
            MinuteCountRow.minute_unix < until_unix,
            MinuteCountRow.deployment == deployment,
            MinuteCountRow.contract_revision == contract_revision,
            or_(
                MinuteCountRow.measure.like("objective.%"),
                MinuteCountRow.measure.like("in_contract.%"),
            ),
        )
        .group_by(MinuteCountRow.request_class, MinuteCountRow.measure)
    )
    for request_class, measure, value in rows:
        totals.setdefault(request_class, {})[measure] = int(value)
    return totals


def add_samples(session: Session, samples: Sequence[MinuteSample]) -> None:
    """Store what gateways showed in one minute, beside what other control planes stored of it."""
    rows = [row for sample in samples for row in _sample_rows(sample)]
    rows.sort(key=lambda row: (row["minute_unix"], row["deployment"], row["measure"]))
    upsert(session, MinuteCountRow.__table__, rows, {"value": "add"})


class _Part(NamedTuple):
    """A piece of a span that is read from one table."""

    is_hourly: bool
    start_unix: int
    end_unix: int


def _parts(span: SeriesSpan) -> list[_Part]:
    """Buckets of whole hours are read from the sums of hours, but for the hour under way: its
    sum already has what arrived after the end."""
    start, end = span.start_unix, span.end_unix
    if start % HOUR_SECONDS or span.step_seconds % HOUR_SECONDS:
        return [_Part(False, start, end)]
    middle = end // HOUR_SECONDS * HOUR_SECONDS
    parts = (_Part(True, start, middle), _Part(False, middle, end))
    return [part for part in parts if part.start_unix < part.end_unix]


def _add_count(bucket: BucketCounts, measure: str, value: int) -> None:
    if measure.startswith(TTFT_PREFIX):
        number = int(measure.removeprefix(TTFT_PREFIX))
        bucket.ttft[number] = bucket.ttft.get(number, 0) + value
    else:
        bucket.counts[measure] = bucket.counts.get(measure, 0) + value


def _counts_query(part: _Part, deployment: str | None, tenant: str | None) -> Select[int, str, int]:
    """By the table's own times, which its index is in the order of; buckets are made of them
    here, where it costs no sort of all the rows."""
    table: type[HourCountRow | MinuteCountRow] = HourCountRow if part.is_hourly else MinuteCountRow
    at = HourCountRow.hour_unix if part.is_hourly else MinuteCountRow.minute_unix
    conditions = [
        at >= part.start_unix,
        at < part.end_unix,
        or_(
            table.measure.in_(_COUNTED),
            table.measure.like("disposition.%"),
            table.measure.like(f"{TTFT_PREFIX}%"),
        ),
    ]
    if deployment is not None:
        conditions.append(table.deployment == deployment)
    if tenant is not None:
        conditions.append(table.tenant == tenant)
    return (
        select(at, table.measure, func.sum(table.value))
        .where(*conditions)
        .group_by(at, table.measure)
    )


def _add_samples(
    session: Session, span: SeriesSpan, deployment: str | None, buckets: dict[int, BucketCounts]
) -> None:
    number = _bucket_number(span).label("number")
    rows = session.execute(
        select(
            number,
            MinuteCountRow.measure,
            func.sum(MinuteCountRow.value),
            func.count(distinct(MinuteCountRow.minute_unix)),
        )
        .where(
            *_within(span),
            _IS_SAMPLED,
            MinuteCountRow.deployment == (deployment or ""),
            MinuteCountRow.measure.in_(_SAMPLED),
        )
        .group_by(number, MinuteCountRow.measure)
    )
    for bucket_number, measure, value, num_minutes in rows:
        bucket = buckets.setdefault(int(bucket_number), BucketCounts())
        mean = int(value) / 1000 / int(num_minutes)
        if measure == SAMPLED_ACTIVE:
            bucket.active = mean
        elif measure == SAMPLED_QUEUED:
            bucket.queued = mean
        else:
            bucket.num_sampled_minutes = int(num_minutes)


def _bucket_number(span: SeriesSpan) -> ColumnElement[int]:
    number: ColumnElement[int] = (MinuteCountRow.minute_unix - span.start_unix) // span.step_seconds
    return number


def _within(span: SeriesSpan) -> list[ColumnElement[bool]]:
    return [
        MinuteCountRow.minute_unix >= span.start_unix,
        MinuteCountRow.minute_unix < span.end_unix,
    ]


def _sample_rows(sample: MinuteSample) -> list[Mapping[str, str | int]]:
    values = {
        SAMPLED_GATEWAYS: sample.num_gateways,
        SAMPLED_ACTIVE: round(sample.active * 1000),
    }
    if sample.queued is not None:
        values[SAMPLED_QUEUED] = round(sample.queued * 1000)
    key: dict[str, str | int] = {
        "minute_unix": sample.minute_unix,
        "deployment": sample.deployment,
        "request_class": "",
        "tenant": "",
        "contract_revision": "",
    }
    return [{**key, "measure": measure, "value": value} for measure, value in values.items()]

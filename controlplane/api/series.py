"""Charts over time: traffic, latencies and gauges in buckets, and what changed meanwhile.

A bucket in which no gateway was heard and nothing was counted is a gap: None, never 0.
Requests are counted at the minute they arrived, once they ended; so the minute under way is
left out, and a late record still finds its place. A last bucket that is not over ends with the
last whole minute, and its rates are over the minutes that have passed.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request

from controlplane.api.charts import Chart, create_charts
from controlplane.api.marks import Mark, read_incident_marks, read_marks
from controlplane.api.silence_marks import Band, read_bands, read_silence_marks
from controlplane.process_history import ProcessHistory
from controlplane.store.database import Database
from controlplane.store.series import BucketCounts, SeriesSpan, heard_buckets, read_series
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["series"])

_STEP_BY_RANGE = {"15m": 60, "1h": 60, "6h": 300, "1d": 3600, "7d": 7200}
_SECONDS_BY_RANGE = {"15m": 900, "1h": 3600, "6h": 21600, "1d": 86400, "7d": 604800}
RANGES = tuple(_SECONDS_BY_RANGE)
DEFAULT_RANGE = "1h"
_MINUTE_SECONDS = 60
_MAX_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Charts over the same buckets."""

    as_of_unix_ns: int
    range: str
    deployment: str | None
    start_unix: int
    end_unix: int
    step_seconds: int
    last_step_seconds: int
    """Of the last bucket: less than the others while it is under way."""
    times_unix: list[int]
    """Start of every bucket, seconds since the epoch."""
    charts: list[Chart]
    marks: list[Mark]
    """Changes, incidents, silences and maintenance within the span, oldest first."""
    bands: list[Band]
    """Planned maintenance."""


class SeriesError(ValueError):
    """A range or a name that cannot be answered for; the message lists what can."""


@router.get("/series")
def get_series(
    request: Request,
    span: Annotated[str, Query(alias="range")] = DEFAULT_RANGE,
    deployment: str | None = None,
    tenant: str | None = None,
) -> Series:
    """Charts over `range` (15m, 1h, 6h, 1d or 7d), of all or of one deployment or tenant."""
    state = request.app.state
    try:
        return read_charts(
            state.config_db,
            state.request_db,
            span,
            wall_clock(),
            deployment or None,
            tenant,
            state.process_history,
        )
    except SeriesError as error:
        raise HTTPException(422, str(error)) from error


def read_charts(
    config_db: Database,
    request_db: Database,
    range_: str,
    now_unix_ns: int,
    deployment: str | None = None,
    tenant: str | None = None,
    processes: ProcessHistory | None = None,
) -> Series:
    """Raises SeriesError. With `tenant`, only what was counted for it, and no changes."""
    span = span_of(range_, now_unix_ns)
    if deployment is not None and len(deployment) > _MAX_NAME:
        raise SeriesError(f"deployment: longer than {_MAX_NAME} characters")
    with request_db.reading() as session:
        buckets = read_series(session, span, deployment, tenant)
        heard = heard_buckets(session, span)
    lengths = span.bucket_seconds
    numbers = range(len(lengths))
    known = [
        buckets.get(number, BucketCounts()) if number in heard or number in buckets else None
        for number in numbers
    ]
    return Series(
        as_of_unix_ns=now_unix_ns,
        range=range_,
        deployment=deployment,
        start_unix=span.start_unix,
        end_unix=span.end_unix,
        step_seconds=span.step_seconds,
        last_step_seconds=lengths[-1],
        times_unix=[span.start_unix + number * span.step_seconds for number in numbers],
        charts=create_charts(known, lengths),
        marks=[] if tenant is not None else all_marks(config_db, span, deployment, processes),
        bands=[] if tenant is not None else read_bands(config_db, span, deployment),
    )


def all_marks(
    database: Database, span: SeriesSpan, deployment: str | None, processes: ProcessHistory | None
) -> list[Mark]:
    """Changes, incidents, silences and maintenance, the oldest first."""
    changes = read_marks(database, span, deployment, processes)
    incidents = read_incident_marks(database, span, deployment)
    silences = read_silence_marks(database, span, deployment)
    return sorted([*changes, *incidents, *silences], key=lambda mark: mark.at_unix_ns)


def seconds_of(range_: str) -> int:
    """How long a range is. Raises SeriesError."""
    if range_ not in _SECONDS_BY_RANGE:
        raise SeriesError(f"range: {range_[:32]!r} is none of {', '.join(RANGES)}")
    return _SECONDS_BY_RANGE[range_]


def span_of(range_: str, now_unix_ns: int) -> SeriesSpan:
    """The whole buckets of a range, and what has passed of the one after. Raises SeriesError."""
    seconds = seconds_of(range_)
    step = _STEP_BY_RANGE[range_]
    end = now_unix_ns // 10**9 // _MINUTE_SECONDS * _MINUTE_SECONDS
    return SeriesSpan(start_unix=end // step * step - seconds, end_unix=end, step_seconds=step)

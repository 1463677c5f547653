"""Exact counts: of every minute, and summed up by the hour so that a week is read at once.

Both are added to in the same unit of work; nothing else writes them but the gauges of
`controlplane.store.series`, which are means of a minute and no sums.
"""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy.orm import Session

from controlplane.store.request_rows import CountKey
from controlplane.store.request_tables import HourCountRow, MinuteCountRow
from controlplane.store.upsert import upsert

HOUR_SECONDS = 3600


def add_counts(session: Session, counts: Mapping[CountKey, int]) -> None:
    """Add `counts` to those of their minutes and hours, in the order of their keys."""
    rows = [{**key._asdict(), "value": value} for key, value in sorted(counts.items()) if value]
    upsert(session, MinuteCountRow.__table__, rows, {"value": "add"})
    hours: Counter[CountKey] = Counter()
    for key, value in counts.items():
        hours[key._replace(minute_unix=key.minute_unix // HOUR_SECONDS * HOUR_SECONDS)] += value
    rows = [_hour_row(key, value) for key, value in sorted(hours.items()) if value]
    upsert(session, HourCountRow.__table__, rows, {"value": "add"})


def _hour_row(key: CountKey, value: int) -> dict[str, str | int]:
    row = {**key._asdict(), "value": value}
    row["hour_unix"] = row.pop("minute_unix")
    return row

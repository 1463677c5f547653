"""How objectives of one deployment went step by step: the exact counts, summed into buckets."""

from collections import Counter

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from controlplane.store.count_parts import CountPart, parts_of
from controlplane.store.counts import HOUR_SECONDS
from controlplane.store.objective_counts import GoodAndTotal
from controlplane.store.request_tables import MinuteCountRow
from controlplane.store.series import SeriesSpan

_PREFIX, _GOOD, _TOTAL = "objective.", ".good", ".total"

BucketsByObjective = dict[tuple[str, str], list[GoodAndTotal]]
"""By class and objective; one for each bucket of the span."""


def read_objective_buckets(
    session: Session, span: SeriesSpan, deployment: str
) -> BucketsByObjective:
    """As `read_objective_counts` counts them. An objective that judged nothing is absent."""
    sums: dict[tuple[str, str], Counter[int]] = {}
    for part in _parts(span):
        for at, request_class, measure, value in session.execute(_query(part, deployment)):
            number = (int(at) - span.start_unix) // span.step_seconds
            sums.setdefault((request_class, measure), Counter())[number] += int(value)
    found: BucketsByObjective = {}
    for (request_class, measure), totals in sums.items():
        if measure.endswith(_TOTAL):
            objective = measure.removeprefix(_PREFIX).removesuffix(_TOTAL)
            good = sums.get((request_class, f"{_PREFIX}{objective}{_GOOD}"), Counter())
            found[request_class, objective] = [
                GoodAndTotal(good[number], totals[number])
                for number in range(len(span.bucket_seconds))
            ]
    return found


def _parts(span: SeriesSpan) -> list[CountPart]:
    """Hours where every bucket is made of whole ones, minutes where not."""
    if span.start_unix % HOUR_SECONDS or span.step_seconds % HOUR_SECONDS:
        return [CountPart(MinuteCountRow, span.start_unix, span.end_unix)]
    return parts_of(span.start_unix, span.end_unix)


def _query(part: CountPart, deployment: str) -> Select[int, str, str, int]:
    table = part.table
    key = (part.at, table.request_class, table.measure)
    return (
        select(*key, func.sum(table.value))
        .where(
            part.is_within,
            table.deployment == deployment,
            table.measure.like(f"{_PREFIX}%"),
        )
        .group_by(*key)
    )

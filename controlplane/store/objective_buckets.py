"""How objectives of one deployment went step by step: the exact counts, summed into buckets."""

from collections import Counter

from sqlalchemy.orm import Session

from controlplane.slo.event_counts import EventCounts
from controlplane.store.count_parts import CountPart, parts_of
from controlplane.store.counts import HOUR_SECONDS
from controlplane.store.objective_counts import read_slots
from controlplane.store.request_tables import MinuteCountRow
from controlplane.store.series import SeriesSpan

BucketsByObjective = dict[tuple[str, str], list[EventCounts]]
"""By class and objective; one for each bucket of the span."""
_Sums = dict[tuple[str, str], Counter[int]]
"""By class and objective, and by the number of the bucket."""


def read_objective_buckets(
    session: Session, span: SeriesSpan, deployment: str
) -> BucketsByObjective:
    """As `read_objective_counts` counts them. An objective that judged nothing is absent."""
    good: _Sums = {}
    total: _Sums = {}
    for part in _parts(span):
        for slot in read_slots(session, part, deployment):
            number = (slot.at_unix - span.start_unix) // span.step_seconds
            counted = good if slot.is_good else total
            of = slot.key.request_class, slot.key.objective
            counted.setdefault(of, Counter())[number] += slot.number
    numbers = range(len(span.bucket_seconds))
    return {
        of: [
            EventCounts.summed(good.get(of, Counter())[number], counted[number])
            for number in numbers
        ]
        for of, counted in total.items()
    }


def _parts(span: SeriesSpan) -> list[CountPart]:
    """Hours where every bucket is made of whole ones, minutes where not."""
    if span.start_unix % HOUR_SECONDS or span.step_seconds % HOUR_SECONDS:
        return [CountPart(MinuteCountRow, span.start_unix, span.end_unix)]
    return parts_of(span.start_unix, span.end_unix)

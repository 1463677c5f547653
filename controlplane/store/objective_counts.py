"""How objectives went over a time: sums of the exact counts, by deployment, class and objective."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from controlplane.slo.event_counts import EventCounts
from controlplane.store.count_parts import CountPart, parts_of
from controlplane.store.request_tables import HourCountRow, MinuteCountRow

_PREFIX = "objective."
_GOOD = "good"
_ROWS_AT_ONCE = 5_000


class ObjectiveKey(NamedTuple):
    """Whose objective."""

    deployment: str
    request_class: str
    objective: str
    """A signal, or `together`."""


def read_objective_counts(
    session: Session, start_unix: int, end_unix: int, deployment: str | None = None
) -> dict[ObjectiveKey, EventCounts]:
    """What was judged from `start_unix` until before `end_unix`, whole minutes both, whichever
    revision of a contract judged it. An objective that judged nothing is absent."""
    good, total = Counter[ObjectiveKey](), Counter[ObjectiveKey]()
    for part in parts_of(start_unix, end_unix):
        for name, request_class, measure, value in session.execute(_query(part, deployment)):
            objective, is_good = _objective_of(measure)
            counted = good if is_good else total
            counted[ObjectiveKey(name, request_class, objective)] += int(value)
    return {key: EventCounts.summed(good[key], number) for key, number in total.items()}


def _objective_of(measure: str) -> tuple[str, bool]:
    """Its objective, and whether it counts those that met it; else those that it applied to."""
    objective, _, word = measure.removeprefix(_PREFIX).rpartition(".")
    return objective, word == _GOOD


def _query(part: CountPart, deployment: str | None) -> Select[str, str, str, int]:
    table = part.table
    key = (table.deployment, table.request_class, table.measure)
    query = (
        select(*key, func.sum(table.value))
        .where(part.is_within, table.measure.like(f"{_PREFIX}%"))
        .group_by(*key)
    )
    return query if deployment is None else query.where(table.deployment == deployment)


class ObjectiveSlot(NamedTuple):
    """One objective in one minute or hour."""

    at_unix: int
    key: ObjectiveKey
    is_good: bool
    """Whether `number` counts those that met it; else those that it applied to."""
    number: int


def read_minutes(session: Session, start_unix: int, end_unix: int) -> Iterator[ObjectiveSlot]:
    """By the minute in which they were judged, of whole minutes, in no order."""
    return read_slots(session, CountPart(MinuteCountRow, start_unix, end_unix))


def read_hours(session: Session, start_unix: int, end_unix: int) -> Iterator[ObjectiveSlot]:
    """The same of whole hours."""
    return read_slots(session, CountPart(HourCountRow, start_unix, end_unix))


def read_slots(
    session: Session, part: CountPart, deployment: str | None = None
) -> Iterator[ObjectiveSlot]:
    """By the minutes or hours of the table that `part` is read from, in no order."""
    table = part.table
    columns = (part.at, table.deployment, table.request_class, table.measure)
    query = (
        select(*columns, func.sum(table.value))
        .where(part.is_within, table.measure.like(f"{_PREFIX}%"))
        .group_by(*columns)
    )
    rows = session.execute(
        query if deployment is None else query.where(table.deployment == deployment),
        execution_options={"yield_per": _ROWS_AT_ONCE},
    )
    for at_unix, name, request_class, measure, value in rows:
        objective, is_good = _objective_of(measure)
        key = ObjectiveKey(name, request_class, objective)
        yield ObjectiveSlot(int(at_unix), key, is_good, int(value))

"""How objectives went over a time: sums of the exact counts, by deployment, class and objective."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from controlplane.store.count_parts import CountPart, parts_of
from controlplane.store.request_tables import HourCountRow, MinuteCountRow

_PREFIX = "objective."
_GOOD, _TOTAL = ".good", ".total"
_ROWS_AT_ONCE = 5_000


class ObjectiveKey(NamedTuple):
    """Whose objective."""

    deployment: str
    request_class: str
    objective: str
    """A signal, or `together`."""


class GoodAndTotal(NamedTuple):
    """Requests that met it, of those that it applied to."""

    good: int
    total: int


def read_objective_counts(
    session: Session, start_unix: int, end_unix: int, deployment: str | None = None
) -> dict[ObjectiveKey, GoodAndTotal]:
    """What was judged from `start_unix` until before `end_unix`, whole minutes both, whichever
    revision of a contract judged it. An objective that judged nothing is absent."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for part in parts_of(start_unix, end_unix):
        for name, request_class, measure, value in session.execute(_query(part, deployment)):
            sums[name, request_class, measure] += int(value)
    found = {}
    for (name, request_class, measure), total in sums.items():
        if not measure.endswith(_TOTAL):
            continue
        objective = measure.removeprefix(_PREFIX).removesuffix(_TOTAL)
        good = sums[name, request_class, f"{_PREFIX}{objective}{_GOOD}"]
        found[ObjectiveKey(name, request_class, objective)] = GoodAndTotal(good, total)
    return found


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
    return _slots(session, CountPart(MinuteCountRow, start_unix, end_unix))


def read_hours(session: Session, start_unix: int, end_unix: int) -> Iterator[ObjectiveSlot]:
    """The same of whole hours."""
    return _slots(session, CountPart(HourCountRow, start_unix, end_unix))


def _slots(session: Session, part: CountPart) -> Iterator[ObjectiveSlot]:
    table = part.table
    columns = (part.at, table.deployment, table.request_class, table.measure)
    rows = session.execute(
        select(*columns, func.sum(table.value))
        .where(part.is_within, table.measure.like(f"{_PREFIX}%"))
        .group_by(*columns),
        execution_options={"yield_per": _ROWS_AT_ONCE},
    )
    for at_unix, name, request_class, measure, value in rows:
        objective, _, word = measure.removeprefix(_PREFIX).rpartition(".")
        key = ObjectiveKey(name, request_class, objective)
        yield ObjectiveSlot(int(at_unix), key, f".{word}" == _GOOD, int(value))

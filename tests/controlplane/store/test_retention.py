"""What is to be removed, decided from times and sizes alone."""

import pytest

from controlplane.store.retention import (
    Removal,
    RemovalReason,
    Retention,
    Store,
    plan_by_age,
    plan_by_size,
)

DAY_NS = 86_400 * 10**9
NOW_NS = 20_000 * DAY_NS
KEPT = Retention(full_days=2, row_days=10, count_days=100, max_bytes=1000)


def ages(full: float | None, rows: float | None, counts: float | None) -> dict[Store, int | None]:
    days = {Store.FULL_RECORDS: full, Store.REQUESTS: rows, Store.MINUTE_COUNTS: counts}
    return {
        store: None if age is None else NOW_NS - int(age * DAY_NS) for store, age in days.items()
    }


def test_each_store_goes_after_a_time_of_its_own() -> None:
    assert plan_by_age(KEPT, ages(3, 9, 101), NOW_NS) == [
        Removal(
            store=Store.FULL_RECORDS,
            before_unix_ns=NOW_NS - 2 * DAY_NS,
            reason=RemovalReason.AGE,
        ),
        Removal(
            store=Store.MINUTE_COUNTS,
            before_unix_ns=NOW_NS - 100 * DAY_NS,
            reason=RemovalReason.AGE,
        ),
    ]


def test_what_is_young_or_empty_stays() -> None:
    assert plan_by_age(KEPT, ages(1.9, None, 99), NOW_NS) == []


@pytest.mark.parametrize(
    ("full", "rows", "shortened"),
    [(1.9, 5, Store.FULL_RECORDS), (0.5, 5, Store.REQUESTS), (None, 0.1, Store.REQUESTS)],
)
def test_a_size_bound_shortens_what_used_up_most_of_its_time(
    full: float | None, rows: float, shortened: Store
) -> None:
    removal = plan_by_size(KEPT, ages(full, rows, 99), 1001, NOW_NS)
    assert removal == Removal(store=shortened, before_unix_ns=NOW_NS, reason=RemovalReason.SIZE)


def test_counts_are_never_removed_for_their_size() -> None:
    assert plan_by_size(KEPT, ages(None, None, 99), 10**12, NOW_NS) is None


def test_nothing_is_removed_within_the_bound_or_without_one() -> None:
    assert plan_by_size(KEPT, ages(1, 1, 1), 1000, NOW_NS) is None
    assert plan_by_size(Retention(), ages(1, 1, 1), 10**15, NOW_NS) is None


@pytest.mark.parametrize("days", [(0, 1, 1), (3, 2, 9), (1, 5, 4), (-1, 1, 1)])
def test_times_that_contradict_each_other_are_refused(days: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="full records no longer than rows"):
        Retention(full_days=days[0], row_days=days[1], count_days=days[2])

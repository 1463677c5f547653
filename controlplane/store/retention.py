"""How long request data is kept, and what is to be removed next: pure decisions.

Full records go first, then compact rows, and the exact counts per minute last of all, because
budgets are computed from them. A bound on the size shortens the times of records and rows by
the same share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.store.room import DEFAULT_RESERVE_BYTES

_DAY_NS = 86_400 * 10**9


class Store(StrEnum):
    """What is removed by age, each after a time of its own."""

    FULL_RECORDS = "full_records"
    REQUESTS = "requests"
    """Compact rows, with what clients and engines told about them."""
    MINUTE_COUNTS = "minute_counts"


class RemovalReason(StrEnum):
    """Why data was removed."""

    AGE = "age"
    SIZE = "size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long, and how much. Raises ValueError when the times contradict each other."""

    full_days: float = 14
    row_days: float = 35
    count_days: float = 400
    max_bytes: int | None = None
    """Of the whole request database; None: no bound."""

    def __post_init__(self) -> None:
        if not 0 < self.full_days <= self.row_days <= self.count_days:
            raise ValueError(
                "request data must be kept for more than 0 days, and full records no longer than "
                f"rows, rows no longer than counts; got {self.full_days:g}, {self.row_days:g} and "
                f"{self.count_days:g} days"
            )

    def days(self, store: Store) -> float:
        """How long what is in `store` is kept."""
        return {
            Store.FULL_RECORDS: self.full_days,
            Store.REQUESTS: self.row_days,
            Store.MINUTE_COUNTS: self.count_days,
        }[store]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How much request data there may be."""

    retention: Retention = field(default_factory=Retention)
    reserve_bytes: int = DEFAULT_RESERVE_BYTES
    """Below an SQLite request database, so much of the disk is left free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The next step: what of one store arrived before an instant may go."""

    store: Store
    before_unix_ns: int
    reason: RemovalReason


def plan_by_age(
    retention: Retention, oldest_unix_ns: Mapping[Store, int | None], now_unix_ns: int
) -> list[Removal]:
    """One removal for every store that holds something too old. None: it holds nothing."""
    removals = []
    for store in Store:
        cutoff = now_unix_ns - int(retention.days(store) * _DAY_NS)
        oldest = oldest_unix_ns[store]
        if oldest is not None and oldest < cutoff:
            removals.append(Removal(store=store, before_unix_ns=cutoff, reason=RemovalReason.AGE))
    return removals


def plan_by_size(
    retention: Retention,
    oldest_unix_ns: Mapping[Store, int | None],
    num_bytes: int,
    now_unix_ns: int,
) -> Removal | None:
    """What to shorten next while the database is too large; None: it is not, or nothing helps.

    It is the store whose oldest data has used up most of its time, and counts never: they are
    small, and exact.
    """
    if retention.max_bytes is None or num_bytes <= retention.max_bytes:
        return None
    used = {
        store: (now_unix_ns - oldest) / (retention.days(store) * _DAY_NS)
        for store in (Store.FULL_RECORDS, Store.REQUESTS)
        if (oldest := oldest_unix_ns[store]) is not None
    }
    if not used:
        return None
    store = max(used, key=lambda each: used[each])
    return Removal(store=store, before_unix_ns=now_unix_ns, reason=RemovalReason.SIZE)

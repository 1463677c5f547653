"""Use and cost as API, page and terminal show them. Pure conversions."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.store.metered_measures import (
    INFERRED_US,
    KV_BLOCK_MS,
    KV_METERED,
    METERED,
    OBSERVED_US,
    UNMETERED,
)

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.api.usage import UsageQuery
    from controlplane.store.replica_hours import ReplicaCost
    from controlplane.store.usage import UsageKey

MAX_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Sums. None: of nobody in it is that known, or nothing of it was ever measured."""

    num_offered: int
    num_in_contract: int | None
    """None: no contract applied to any."""
    input_tokens: int
    cached_tokens: int
    """Of the input: reused, not computed."""
    output_tokens: int
    num_metered: int
    """Requests of which the engine's time is known."""
    num_unmetered: int
    """Requests that an engine worked on, and nobody knows for how long."""
    engine_seconds: float | None
    """Of replicas' time."""
    engine_seconds_inferred: float | None
    """The part of it that no engine measured: as if replicas had shared their time evenly."""
    kv_block_seconds: float | None
    num_kv_metered: int
    """Requests of which the blocks are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of a part of a deployment, or of all of it."""

    amount: float | None
    currency: str | None
    per_in_contract: float | None
    """For each request that kept its contract; None: there was none, or no contract."""
    why_unknown: str | None
    """Where `amount` is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One row; what it is not of is None. An empty name: the request had none."""

    deployment: str | None
    request_class: str | None
    tenant: str | None
    used: Used
    cost: Cost | None
    """None: not for whoever asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentUsage:
    """One deployment whole, whoever used it and whatever was filtered."""

    deployment: str
    replica_seconds: float
    engine_seconds: float | None
    idle_share: float | None
    """Of the replicas' time, in which no step ran; None where that is not known."""
    why_no_idle_share: str | None
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """The whole answer."""

    start_unix_ns: int
    end_unix_ns: int
    by: list[str]
    total: Used
    """Of all rows, those left out included."""
    rows: list[UsageRow]
    """Who took most of the engines first."""
    num_rows_left_out: int
    deployments: list[DeploymentUsage]
    """Empty for who is bound to a tenant."""


def view_usage(
    query: "UsageQuery",
    usage: "Mapping[UsageKey, Mapping[str, int]]",
    costs: "Mapping[str, ReplicaCost]",
) -> UsageView:
    """Group, share out and sort."""
    of_deployment: dict[str, Counter[str]] = defaultdict(Counter)
    for key, counts in usage.items():
        of_deployment[key.deployment].update(counts)
    groups: dict[_GroupKey, _Group] = defaultdict(_Group)
    total: Counter[str] = Counter()
    for key, counts in usage.items():
        if query.takes(key):
            total.update(counts)
            share = _share_of(counts, of_deployment[key.deployment])
            groups[_group_key(key, query.groups)].add(counts, costs.get(key.deployment), share)
    rows = sorted((_row(key, group, query) for key, group in groups.items()), key=_most_used)
    return UsageView(
        start_unix_ns=query.start_unix_ns,
        end_unix_ns=query.end_unix_ns,
        by=list(query.groups),
        total=_used(total),
        rows=rows[:MAX_ROWS],
        num_rows_left_out=max(0, len(rows) - MAX_ROWS),
        deployments=[_deployment(name, of_deployment[name], costs[name]) for name in sorted(costs)],
    )


_GroupKey = tuple[str | None, str | None, str | None]


class _Group:
    """What is added up for one row."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._amount = 0.0
        self._currencies: set[str] = set()
        self._why_unknown: str | None = None

    def add(
        self, counts: "Mapping[str, int]", cost: "ReplicaCost | None", share: float | None
    ) -> None:
        self.counts.update(counts)
        if cost is None:
            self._why_unknown = "nothing is known of its replicas"
        elif cost.amount is None or cost.currency is None:
            self._why_unknown = cost.why_no_amount
        elif share is None:
            self._why_unknown = "nobody's use of the engines was measured"
        else:
            self._amount += cost.amount * share
            self._currencies.add(cost.currency)

    @property
    def cost(self) -> Cost:
        why = self._why_unknown
        if why is None and len(self._currencies) > 1:
            why = f"it is in {' and '.join(sorted(self._currencies))}: ask by deployment"
        currency = min(self._currencies) if len(self._currencies) == 1 else None
        return _cost(self._amount if why is None else None, currency, self.counts, why)


def _group_key(key: "UsageKey", groups: Sequence[str]) -> _GroupKey:
    return (
        key.deployment if "deployment" in groups else None,
        key.request_class if "class" in groups else None,
        key.tenant if "tenant" in groups else None,
    )


def _row(key: _GroupKey, group: _Group, query: "UsageQuery") -> UsageRow:
    deployment, request_class, tenant = key
    return UsageRow(
        deployment=deployment,
        request_class=request_class,
        tenant=tenant,
        used=_used(group.counts),
        cost=group.cost if query.only_tenant is None else None,
    )


def _most_used(row: UsageRow) -> tuple[float, int, str, str, str]:
    names = (row.deployment or "", row.request_class or "", row.tenant or "")
    return (-(row.used.engine_seconds or 0.0), -row.used.num_offered, *names)


def _share_of(counts: "Mapping[str, int]", of_all: "Mapping[str, int]") -> float | None:
    """Of the engines' time that a deployment's requests took; None: no time was measured."""
    total = _engine_us(of_all)
    return None if not total else _engine_us(counts) / total


def _engine_us(counts: "Mapping[str, int]") -> int:
    return counts.get(OBSERVED_US, 0) + counts.get(INFERRED_US, 0)


def _used(counts: "Mapping[str, int]") -> Used:
    num_metered, num_kv_metered = counts.get(METERED, 0), counts.get(KV_METERED, 0)
    # What is input was given to an engine: where nothing was, nothing can have been taken.
    is_idle = not counts.get("tokens.input", 0) and not counts.get(UNMETERED, 0)
    is_judged = counts.get("in_contract.total", 0) > 0
    return Used(
        num_offered=counts.get("offered", 0),
        num_in_contract=counts.get("in_contract.good", 0) if is_judged else None,
        input_tokens=counts.get("tokens.input", 0),
        cached_tokens=counts.get("tokens.cached", 0),
        output_tokens=counts.get("tokens.output", 0),
        num_metered=num_metered,
        num_unmetered=counts.get(UNMETERED, 0),
        engine_seconds=_engine_us(counts) / 1e6 if num_metered or is_idle else None,
        engine_seconds_inferred=(
            counts.get(INFERRED_US, 0) / 1e6 if num_metered or is_idle else None
        ),
        kv_block_seconds=counts.get(KV_BLOCK_MS, 0) / 1e3 if num_kv_metered or is_idle else None,
        num_kv_metered=num_kv_metered,
    )


def _deployment(name: str, counts: "Mapping[str, int]", cost: "ReplicaCost") -> DeploymentUsage:
    used = _used(counts)
    idle, why = _idle_share(cost.replica_seconds, used)
    return DeploymentUsage(
        deployment=name,
        replica_seconds=cost.replica_seconds,
        engine_seconds=used.engine_seconds,
        idle_share=idle,
        why_no_idle_share=why,
        cost=_cost(cost.amount, cost.currency, counts, cost.why_no_amount),
    )


def _idle_share(replica_seconds: float, used: Used) -> tuple[float | None, str | None]:
    """And why there is none."""
    if not replica_seconds:
        return None, "it had no replica"
    if used.engine_seconds is None:
        return None, "no request was measured"
    if used.engine_seconds_inferred:
        return None, "engines that do not measure their steps do not show when none ran"
    idle = 1 - used.engine_seconds / replica_seconds
    if idle < 0:
        return None, "requests took more time than its replicas were there, as far as is known"
    return idle, None


def _cost(
    amount: float | None, currency: str | None, counts: "Mapping[str, int]", why: str | None
) -> Cost:
    num_good = counts.get("in_contract.good", 0)
    return Cost(
        amount=amount,
        currency=currency,
        per_in_contract=None if amount is None or not num_good else amount / num_good,
        why_unknown=why if amount is None else None,
    )

"""What records tell that is no course: who sent how much, to which replica, and how it ended."""

from collections import Counter
from collections.abc import Iterable, Sequence

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.seen_request import SeenRequest
from dataplane.lifecycle import Disposition

_MOST_SHARES = 12
"""Tenants that are named; the others are one, `others`."""
_SLOW_DELIVERY_SECONDS = 1.0
"""Between the last token and the last write: a client that reads takes milliseconds."""
_FAILED = frozenset({Disposition.ERROR, Disposition.LOST})


def facts_of_requests(seen: Sequence[SeenRequest], seconds: float, at: float) -> tuple[Fact, ...]:
    """Of requests that arrived in the window."""
    if not seen:
        return ()
    span = f"last_{seconds:.0f}_s"
    records = [each.record for each in seen]
    tenants = _named(record.tenant for record in records)
    attempts = sum(max(0, len(record.replica_ids) - 1) for record in records)
    slow = [e for e in seen if e.delivered - e.finished > _SLOW_DELIVERY_SECONDS]
    held = sorted(
        each.record.latencies.deferred_cleanup
        for each in seen
        if each.record.latencies.deferred_cleanup is not None
    )
    told: dict[str, object] = {
        f"requests_{span}": len(records),
        f"requests_by_ending_{span}": _counts(record.disposition.value for record in records),
    }
    if len(tenants) > 1:
        told[f"requests_by_tenant_{span}"] = _counts(_of(tenants, r.tenant) for r in records)
        told[f"prompt_tokens_by_tenant_{span}"] = _sums(
            (_of(tenants, record.tenant), record.num_input_tokens) for record in records
        )
        told[f"output_tokens_by_tenant_{span}"] = _sums(
            (_of(tenants, record.tenant), record.num_output_tokens or 0) for record in records
        )
        told["queue_wait_p50_by_tenant_s"] = _middles(
            (_of(tenants, record.tenant), record.latencies.queue_time) for record in records
        )
    replicas = _counts(record.replica_ids[-1] for record in records if record.replica_ids)
    if len(replicas) > 1:
        told[f"requests_by_replica_{span}"] = replicas
    if attempts:
        told[f"further_attempts_{span}"] = attempts
    if slow:
        told[f"answers_delivered_over_1_s_late_{span}"] = len(slow)
    if held:
        told["released_after_finish_p95_s"] = _rounded(held[int(0.95 * (len(held) - 1))])
    failed = [record for record in records if record.disposition in _FAILED]
    if failed:
        told[f"failed_by_reason_{span}"] = _counts(record.reason or "unknown" for record in failed)
    cached = sum(record.num_cached_tokens or 0 for record in records)
    prompts = sum(record.num_input_tokens for record in records)
    if prompts:
        told[f"cached_prompt_tokens_{span}"] = cached
        told[f"prompt_tokens_{span}"] = prompts
    return facts_of(told, at, is_observed=True)


def _named(tenants: Iterable[str | None]) -> frozenset[str]:
    counted = Counter(tenant for tenant in tenants if tenant is not None)
    return frozenset(tenant for tenant, _ in counted.most_common(_MOST_SHARES))


def _of(named: frozenset[str], tenant: str | None) -> str:
    return tenant if tenant in named and tenant is not None else "others"


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for name, value in pairs:
        sums[name] += value
    return dict(sums.most_common())


def _middles(pairs: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for name, value in pairs:
        if value is not None:
            values.setdefault(name, []).append(value)
    return {name: _rounded(sorted(each)[len(each) // 2]) for name, each in values.items()}


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")

"""What only our own records of single requests tell: tenants, attempts, clients that do not read.

Of a running deployment, courses and latencies are exported by gateways, sooner and of every
request, and counts say how requests ended: this is read beside them of those that look troubled,
from the newest compact rows. Of a file it is read from its newest records.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.records.ended_request import EndedRequest

OWN_TENANTS = "_"
"""Names that begin so are not callers, but probes of ours."""
_MOST_SHARES = 12
"""Tenants that are named; the others are one, `others`."""
_LATE_DELIVERY_SECONDS = 1.0
"""Between the last token and the last write: a client that reads takes milliseconds."""
_LONG_HELD_SECONDS = 1.0
"""Between the end and the release: an engine that gives back at once takes one step."""
_SOME = 0.05
"""Of the requests: fewer are an accident."""
_FELT_SECONDS = 0.5
"""A shorter wait in the queue is none that a tenant would complain of."""


def facts_of_requests(
    rows: Sequence[EndedRequest], at: float, *, is_one_sending_more: bool
) -> tuple[Fact, ...]:
    """Of requests that arrived of late and have ended. Tenants are told of where one of them sends
    more than it used to: that one has most of the traffic is how most services are."""
    own = [row for row in rows if not (row.tenant or "").startswith(OWN_TENANTS)]
    if not own:
        return ()
    first = min(row.arrived_at_unix_ns for row in own) / 1e9
    span = f"last_{max(1.0, at - first):.0f}_s"
    told: dict[str, object] = dict(_lives(own, span))
    if is_one_sending_more:
        told |= _tenants(own, span)
    if told:
        told[f"requests_{span}"] = len(own)
    return facts_of(told, at, is_observed=True)


def _lives(rows: Sequence[EndedRequest], span: str) -> Iterable[tuple[str, object]]:
    """What happened to them."""
    least = _SOME * len(rows)
    attempts = sum(max(0, row.num_attempts - 1) for row in rows)
    if attempts > least:
        yield f"further_attempts_{span}", attempts
    late = [
        row
        for row in rows
        if row.finished is not None
        and row.last_write is not None
        and row.last_write - row.finished > _LATE_DELIVERY_SECONDS
    ]
    if len(late) > least:
        yield f"answers_delivered_over_1_s_late_{span}", len(late)
    held = sorted(
        row.released - row.finished
        for row in rows
        if row.released is not None and row.finished is not None
    )
    if held and (p95 := held[int(0.95 * (len(held) - 1))]) > _LONG_HELD_SECONDS:
        yield "released_after_finish_p95_s", _rounded(p95)


def _tenants(rows: Sequence[EndedRequest], span: str) -> dict[str, object]:
    """How much each sent, and how long it waited; nothing where there is but one."""
    counted = Counter(row.tenant for row in rows if row.tenant is not None)
    if len(counted) < 2:
        return {}
    named = {tenant for tenant, _ in counted.most_common(_MOST_SHARES)}
    by_tenant: dict[str, list[EndedRequest]] = {}
    for row in rows:
        who = row.tenant if row.tenant is not None and row.tenant in named else "others"
        by_tenant.setdefault(who, []).append(row)
    told: dict[str, object] = {
        f"requests_by_tenant_{span}": _most_first({k: len(v) for k, v in by_tenant.items()}),
        f"prompt_tokens_by_tenant_{span}": _most_first(
            {k: sum(row.num_prompt_tokens or 0 for row in v) for k, v in by_tenant.items()}
        ),
        f"output_tokens_by_tenant_{span}": _most_first(
            {k: sum(row.num_output_tokens or 0 for row in v) for k, v in by_tenant.items()}
        ),
    }
    waits = {
        k: _rounded(sorted(waited)[len(waited) // 2])
        for k, v in by_tenant.items()
        if (waited := [row.scheduled for row in v if row.scheduled is not None])
    }
    if max(waits.values(), default=0.0) >= _FELT_SECONDS:
        told["queue_wait_p50_by_tenant_s"] = waits
    return told


def _most_first(amounts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(amounts.items(), key=lambda each: -each[1]))


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")

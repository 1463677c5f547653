"""One tenant sends twice what there is; three others send little, as before.

Theirs must be answered as fast as without it, but for one turn, and none refused; the flood gets
what they leave. Of two tenants that both flood, one of three times the weight gets three times as
much.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, TenantLimits, TenantPolicy
from ops.hostile.calls import Call, evenly, share_within
from ops.hostile.outcome import Outcome
from ops.hostile.place import open_place
from ops.hostile.setting import (
    NUM_SEQUENCES,
    SERVICE_SECONDS,
    call,
    capacity,
    clients_of,
    simulator,
)

NUM_REPLICAS = 2
_SECONDS = 12.0
_CALM = ("calm-0", "calm-1", "calm-2")
_CALM_RATE = 2.0
_WEIGHTS = {"light": 1.0, "heavy": 3.0}
_WARM_SECONDS = 2.0
_TERMS = AdmissionPolicyTerms(
    revision="flood@1",
    classes=(ClassPolicy(name="all", max_queue=64),),
    max_active_per_replica=NUM_SEQUENCES,
    tenants={name: TenantLimits(weight=weight) for name, weight in _WEIGHTS.items()},
)
_TENANTS = tuple(TenantPolicy(name=name) for name in (*_CALM, "flood", *_WEIGHTS))


def run(folder: Path) -> Outcome:
    """Calm alone, calm beside the flood, two floods of different weights."""
    outcome = Outcome()
    alone = _run_once(folder / "alone", _calm, outcome)
    beside = _run_once(folder / "beside", lambda: [*_calm(), *_flood("flood")], outcome)
    floods = _run_once(folder / "floods", lambda: [*_flood("light"), *_flood("heavy")], outcome)
    calm = [each for each in beside if each.tenant in _CALM]
    flood = [each for each in beside if each.tenant == "flood"]
    p95_alone, p95_beside = (
        share_within(calls, 0.95, lambda each: each.seconds) for calls in (alone, calm)
    )
    num_answered = _num_answered(beside)
    possible = capacity(NUM_REPLICAS) * _SECONDS
    ratio = _num_answered(floods, "heavy") / max(1, _num_answered(floods, "light"))
    outcome.figures |= {
        "calm_p95_seconds_alone": p95_alone,
        "calm_p95_seconds_beside": p95_beside,
        "flood_answered": _num_answered(flood),
        "flood_refused": len(flood) - _num_answered(flood),
        "answered_share_of_capacity": num_answered / possible,
        "heavy_for_one_light": ratio,
    }
    outcome.expect(
        all(each.status == 200 and each.is_whole for each in calm), "no calm tenant is refused"
    )
    outcome.expect(
        p95_beside <= p95_alone + 1.5 * SERVICE_SECONDS,
        f"calm calls take {p95_beside:.3f} s beside the flood, {p95_alone:.3f} s without",
    )
    outcome.expect(num_answered >= 0.8 * possible, f"{num_answered} answers of {possible:.0f}")
    outcome.expect(2.4 <= ratio <= 3.6, f"weight 3 against 1 is served {ratio:.2f} to 1")
    return outcome


def _calm() -> list[Call]:
    return [
        each
        for tenant in _CALM
        for each in evenly(_CALM_RATE, _SECONDS, lambda n, t=tenant: call(n, tenant=t))  # type: ignore[misc]
    ]


def _flood(tenant: str) -> list[Call]:
    return evenly(2 * capacity(NUM_REPLICAS), _SECONDS, lambda n: call(n, tenant=tenant))


def _run_once(folder: Path, plan: Callable[[], list[Call]], outcome: Outcome) -> list[Call]:
    with open_place(folder) as place:
        replicas = place.start_replicas(NUM_REPLICAS, simulator())
        addresses = {each.replica_id: each.address for each in replicas}
        place.start_gateway(_TERMS, addresses, _TENANTS)

        async def flood() -> list[Call]:
            async with clients_of(place, outcome) as (clients, _):
                await clients.send_all(plan())
            return clients.calls

        return asyncio.run(flood())


def _num_answered(calls: list[Call], tenant: str | None = None) -> int:
    """Whole; of one tenant, those that were sent while both flooded."""
    return sum(
        each.status == 200
        and each.is_whole
        and (tenant is None or (each.tenant == tenant and each.at >= _WARM_SECONDS))
        for each in calls
    )

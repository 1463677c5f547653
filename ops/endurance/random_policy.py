"""A random admission policy: what one may ask of requests, queues and replicas.

Every other fleet keeps the few bounds that it was drawn with; of the others each part is there or
not, with numbers small enough to be met. A simulated fleet is one deployment, whose calls have
tokens and no bytes: its fallback is never there and nobody is let in by it, and what a policy says
of bytes (`limits.queue.bytes`, `slow_clients`) means nothing to the simulator and is not drawn.
Those are met by real gateways (ops/hostile, bench_endurance.py --cancels).
"""

import random
from dataclasses import replace
from typing import Any

from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DegradeTerms,
    KVLimits,
    KVReserve,
    OverloadTerms,
    QueueLimits,
    RoutingTerms,
    TenantLimits,
)
from dataplane.routing.builtin import BUILTIN_POLICIES

SESSION_HEADER = "x-session"
"""That callers of random traffic name."""
_NOWHERE = "a-deployment-elsewhere"


def with_random_terms(number: int, policy: AdmissionPolicyTerms) -> AdmissionPolicyTerms:
    """`policy` with more in it; always the same for a number."""
    draw = random.Random(f"policy of {number}")
    if draw.random() < 0.5:
        return policy
    return replace(
        policy,
        classes=tuple(_with_more(draw, each) for each in policy.classes),
        tpot_seconds=draw.choice((None, 0.02, 0.2)),
        max_prompt_tokens_in_flight=draw.choice((None, 60, 400)),
        queue=_random_queue(draw),
        kv=_random_kv(draw),
        tenants=_random_tenants(draw),
        overload=_random_overload(draw, [each.name for each in policy.classes]),
        routing=RoutingTerms(
            policy=draw.choice(BUILTIN_POLICIES),
            affinity_header=draw.choice((None, None, SESSION_HEADER)),
            settings=_random_routing(random.Random(f"routing of {number}")),
        ),
    )


def _random_routing(draw: random.Random) -> dict[str, Any]:
    """Replicas are ejected soon, and new ones get their share slowly."""
    if draw.random() < 0.5:
        return {}
    ejection = {
        "consecutive_failures": draw.choice((1, 3)),
        "latency_factor": draw.choice((1.5, 5.0)),
        "min_latency_seconds": draw.choice((0.05, 1.0)),
        "stall_seconds": draw.choice((0.3, 3.0)),
        "min_requests": 3,
        "eject_seconds": draw.choice((0.2, 3.0)),
        "return_seconds": draw.choice((0.5, 5.0)),
    }
    if draw.random() < 0.5:
        ejection["warm_seconds"] = draw.choice((1.0, 10.0))
    return {"ejection": ejection}


def _with_more(draw: random.Random, request_class: ClassPolicy) -> ClassPolicy:
    return replace(
        request_class,
        first_token_seconds=draw.choice((None, 0.2, 2.0)),
        aging_per_second=draw.choice((0.0, 1.0, 5.0)),
    )


def _random_queue(draw: random.Random) -> QueueLimits:
    return QueueLimits(
        max_requests=draw.choice((None, 0, 5, 30)),
        max_tokens=draw.choice((None, 300, 3000)),
        max_age_seconds=draw.choice((None, 0.5, 4.0)),
    )


def _random_kv(draw: random.Random) -> KVLimits | None:
    if draw.random() < 0.5:
        return None
    return KVLimits(
        reserve=draw.choice(list(KVReserve)),
        quantile=draw.uniform(0.1, 0.99),
        watermark=draw.choice((0.0, 0.1, 0.5)),
    )


def _random_tenants(draw: random.Random) -> dict[str, TenantLimits]:
    names = [name for name in ("default", "one", "two") if draw.random() < 0.4]
    return {
        name: TenantLimits(
            weight=draw.choice((0.5, 1.0, 3.0)),
            tokens_per_minute=draw.choice((None, 300, 3000)),
            max_concurrent=draw.choice((None, 1, 6)),
        )
        for name in names
    }


def _random_overload(draw: random.Random, classes: list[str]) -> OverloadTerms | None:
    if draw.random() < 0.4:
        return None
    age, most = draw.choice((0.1, 1.0)), draw.choice((1, 5))
    overload = OverloadTerms(
        shed=tuple(draw.sample(classes, draw.randint(0, len(classes)))),
        degrade=draw.choice((None, DegradeTerms(queue_age_seconds=age, max_tokens=most))),
        retry_budget=draw.choice((None, 0.0, 0.2)),
    )
    if overload.degrade is None or draw.random() < 0.5:
        return overload
    degrade = replace(
        overload.degrade,
        fallback=_NOWHERE,
        includes_bound=draw.random() < 0.5,
        max_tokens=draw.choice((None, most)),
    )
    return replace(overload, degrade=degrade)

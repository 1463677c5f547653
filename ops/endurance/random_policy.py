"""A random admission policy: everything that one may ask of requests, queues and replicas.

Every other fleet keeps the few bounds that it was drawn with; of the others each part is there or
not, with numbers small enough to be met.
"""

import random
from dataclasses import replace

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
        ),
    )


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
    return OverloadTerms(
        shed=tuple(draw.sample(classes, draw.randint(0, len(classes)))),
        degrade=draw.choice((None, DegradeTerms(queue_age_seconds=age, max_tokens=most))),
        retry_budget=draw.choice((None, 0.0, 0.2)),
    )

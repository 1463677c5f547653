"""An installation that is asked for more than it has: few slots, bounds on everything, and callers
of several kinds."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    OverloadTerms,
    QueueLimits,
    TenantLimits,
    TenantPolicy,
)
from ops.bench.hot_path.chat_calls import chat_payload, prompt_of
from ops.bench.hot_path.stream_call import StreamCall

REVISION = "overload@1"
_TENANT_HEADER = "x-pilothouse-tenant"
_BATCH_TIER = "batch"
TENANTS = (
    TenantPolicy(name="default"),
    TenantPolicy(name="web"),
    TenantPolicy(name="jobs", tier=_BATCH_TIER),
    TenantPolicy(name="flood"),
)
_SHARES = {"web": 0.5, "jobs": 0.4, "flood": 0.1}


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadTermsOfRun:
    """What the installation has, and what it is asked for."""

    num_slots: int
    queue_seconds: float
    """How long requests may wait."""
    prompt_chars: Sequence[int]
    """Lengths of prompts, each as frequent as the others."""
    max_tokens: int


def overload_policy(terms: OverloadTermsOfRun) -> AdmissionPolicyTerms:
    """Every bound that there is, and each of them can be reached."""
    return AdmissionPolicyTerms(
        revision=REVISION,
        classes=(
            ClassPolicy(
                name="batch",
                match=f'tenant.tier == "{_BATCH_TIER}"',
                priority=10,
                max_queue=2 * terms.num_slots,
                deadline_seconds=4 * terms.queue_seconds,
                aging_per_second=1.0,
            ),
            ClassPolicy(
                name="interactive",
                priority=100,
                max_queue=2 * terms.num_slots,
                deadline_seconds=terms.queue_seconds,
            ),
        ),
        max_active_per_replica=terms.num_slots,
        max_prompt_tokens_in_flight=10**7,
        queue=QueueLimits(
            max_requests=3 * terms.num_slots,
            max_tokens=10**7,
            max_bytes=64 * 2**20,
            max_age_seconds=8 * terms.queue_seconds,
        ),
        tenants={"flood": TenantLimits(max_concurrent=1)},
        overload=OverloadTerms(shed=("batch",), retry_budget=0.1),
    )


def overload_calls(
    address: str, terms: OverloadTermsOfRun, times: Sequence[float], seed: int
) -> list[StreamCall]:
    """Calls of all tenants and lengths, in an order that the seed decides."""
    draw = Random(seed)
    calls = []
    for number, at in enumerate(times):
        tenant = draw.choices(list(_SHARES), list(_SHARES.values()))[0]
        length = draw.choice(terms.prompt_chars)
        # Each says something of its own: the same body again would be a retry.
        prompt = prompt_of(length, f"Question {number} of round {seed}. ")
        payload = chat_payload(address, prompt, terms.max_tokens, [(_TENANT_HEADER, tenant)])
        calls.append(
            StreamCall(number=number, payload=payload, scheduled_at=at, kind=f"{length} chars")
        )
    return calls

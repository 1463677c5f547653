"""Policies and recorded requests that these tests begin with."""

from collections.abc import Mapping
from typing import Any

from controlplane.rollouts.change_plan.reclassed import PolicyChange
from controlplane.rollouts.change_plan.recorded import RecordedRequest
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, TenantLimits, TenantPolicy

GOLD = TenantPolicy(name="acme", tier="gold")
FREE = TenantPolicy(name="rival", tier="free")
TENANTS = {each.name: each for each in (GOLD, FREE)}

IS_GOLD = 'tenant.tier == "gold"'
IS_LONG = "request.num_prompt_tokens > 1000"
HAS_HEADER = 'request.headers["x-batch"] == "1"'


def terms(
    *classes: tuple[str, str | None],
    revision: str = "chat@1",
    tenants: Mapping[str, TenantLimits] | None = None,
    **bounds: Any,
) -> AdmissionPolicyTerms:
    """Classes by name and match; `bounds` are of each of them."""
    return AdmissionPolicyTerms(
        revision=revision,
        classes=tuple(ClassPolicy(name=name, match=match, **bounds) for name, match in classes),
        tenants=dict(tenants or {}),
    )


def change(
    before: AdmissionPolicyTerms,
    after: AdmissionPolicyTerms,
    tenants_after: Mapping[str, TenantPolicy] | None = None,
) -> PolicyChange:
    return PolicyChange(
        deployment="chat",
        before=before,
        after=after,
        tenants_before=TENANTS,
        tenants_after=tenants_after or TENANTS,
    )


def request(
    tenant: TenantPolicy = GOLD,
    request_class: str = "rest",
    *,
    at: float = 0.0,
    prompt: int | None = 10,
    output: int | None = 10,
    scheduled: float | None = 0.01,
    ended: float | None = 1.0,
    policy: str = "chat@1",
    gateway: str = "g",
    model: str = "smollm2",
) -> RecordedRequest:
    return RecordedRequest(
        gateway_id=gateway,
        arrived_at_unix_ns=int(at * 1e9),
        tenant=tenant.name,
        request_class=request_class,
        policy_revision=policy,
        model_name=model,
        num_prompt_tokens=prompt,
        num_output_tokens=output,
        scheduled=scheduled,
        ended=ended,
    )

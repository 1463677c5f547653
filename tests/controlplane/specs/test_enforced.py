"""What a gateway is told is what the documents say."""

import msgspec
import pytest

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.enforced import admission_terms, contract_policy, tenant_policy
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec
from dataplane.contract_terms import Objective, ObjectiveSignal
from dataplane.latency import Boundary
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
    TenantPolicy,
)
from dataplane.slow_client_terms import SlowClientAction, SlowClientTerms
from tests.controlplane.config_documents import DESIGN_CONTRACT, DESIGN_POLICY, documents


def test_a_contract_becomes_terms_by_class() -> None:
    [document] = documents(DESIGN_CONTRACT)
    assert isinstance(document.spec, SLOContractSpec)

    policy = contract_policy("chat@3", document.spec)

    assert policy.revision == "chat@3"
    [(name, terms)] = policy.terms_by_class.items()
    assert name == "interactive"
    assert terms.boundary is Boundary.SERVER
    assert terms.objectives == (
        Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3),
        Objective(signal=ObjectiveSignal.TPOT, target=0.95, at_most_seconds=0.04),
        Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999),
    )
    assert terms.together == (ObjectiveSignal.TTFT, ObjectiveSignal.TPOT)
    assert terms.together_target == pytest.approx(0.95)


def test_a_policy_keeps_its_classes_in_matching_order() -> None:
    [document] = documents(DESIGN_POLICY)
    assert isinstance(document.spec, AdmissionPolicySpec)

    terms = admission_terms("chat@2", document.spec)

    assert terms.revision == "chat@2"
    assert terms.max_active_per_replica == 32
    assert terms.classes == (
        ClassPolicy(
            name="interactive",
            match='tenant.tier == "gold"',
            priority=100,
            max_queue=64,
            deadline_seconds=10,
        ),
        ClassPolicy(name="batch", priority=10, max_queue=512, aging_per_second=1),
    )
    assert terms.kv == KVLimits(reserve=KVReserve.EXPECTED, quantile=0.9, watermark=0.05)
    assert terms.overload == OverloadTerms(
        shed=("batch",),
        degrade=DegradeTerms(queue_age_seconds=1, max_tokens=256),
        retry_budget=0.1,
    )
    assert terms.limits_of("whoever") == TenantLimits(tokens_per_minute=200_000)


def test_every_bound_of_a_policy_reaches_the_gateway_in_its_own_unit() -> None:
    [document] = documents("""\
kind: AdmissionPolicy
metadata: {name: chat}
spec:
  classes: [{name: all, aging: 30/m}]
  limits:
    max_prompt_tokens_in_flight: 9000
    queue: {requests: 10, tokens: 5000, bytes: 64MiB, age: 1500ms}
  tenants: {default: {}, acme: {weight: 2, tokens_per_minute: 70, max_concurrent: 3}}
  overload: {degrade: {when: queue_age >= 2s, fallback: small}}
  routing: {policy: prefix_affinity, settings: {a: 1}, affinity_header: X-Session-Id}
  slow_clients: {buffer: 1MiB, then: end, pause_at_most: 2m}
""")
    assert isinstance(document.spec, AdmissionPolicySpec)

    terms = admission_terms("chat@2", document.spec)

    assert terms == AdmissionPolicyTerms(
        revision="chat@2",
        classes=(ClassPolicy(name="all", aging_per_second=0.5),),
        max_prompt_tokens_in_flight=9000,
        queue=QueueLimits(
            max_requests=10, max_tokens=5000, max_bytes=64 * 2**20, max_age_seconds=1.5
        ),
        tenants={
            "default": TenantLimits(),
            "acme": TenantLimits(weight=2, tokens_per_minute=70, max_concurrent=3),
        },
        overload=OverloadTerms(
            degrade=DegradeTerms(queue_age_seconds=2, includes_bound=True, fallback="small")
        ),
        routing=RoutingTerms(
            policy="prefix_affinity", settings={"a": 1}, affinity_header="x-session-id"
        ),
        slow_clients=SlowClientTerms(
            max_waiting_bytes=2**20, then=SlowClientAction.END, pause_seconds=120
        ),
    )
    assert terms.limits_of("acme").max_concurrent == 3
    assert terms.limits_of("globex") == TenantLimits()


def test_a_snapshot_kept_before_a_policy_had_these_terms_still_decodes() -> None:
    before = {"revision": "chat@1", "classes": [{"name": "all"}], "max_active_per_replica": 4}

    assert msgspec.convert(before, AdmissionPolicyTerms) == AdmissionPolicyTerms(
        revision="chat@1", classes=(ClassPolicy(name="all"),), max_active_per_replica=4
    )


def test_a_tenant_keeps_its_tier_and_its_choice() -> None:
    assert tenant_policy("acme", TenantSpec(tier="gold", records_content=True)) == TenantPolicy(
        name="acme", tier="gold", records_content=True
    )
    assert tenant_policy("default", TenantSpec()) == TenantPolicy(name="default")

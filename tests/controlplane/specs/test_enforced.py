"""What a gateway is told is what the documents say."""

import pytest

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.enforced import admission_terms, contract_policy, tenant_policy
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec
from dataplane.contract_terms import Objective, ObjectiveSignal
from dataplane.latency import Boundary
from dataplane.policy import ClassPolicy, TenantPolicy
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
        ClassPolicy(name="batch", priority=10, max_queue=512),
    )


def test_a_tenant_keeps_its_tier_and_its_choice() -> None:
    assert tenant_policy("acme", TenantSpec(tier="gold", records_content=True)) == TenantPolicy(
        name="acme", tier="gold", records_content=True
    )
    assert tenant_policy("default", TenantSpec()) == TenantPolicy(name="default")

"""From documents to what a gateway enforces: the one place where that translation is made."""

from controlplane.specs.contract import ClassContractSpec, SLOContractSpec
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec
from dataplane.contract_terms import ContractTerms, Objective
from dataplane.latency import Boundary
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, ContractPolicy, TenantPolicy


def contract_policy(revision: str, spec: SLOContractSpec) -> ContractPolicy:
    """What the gateway judges requests by. `revision` is `name@number`."""
    return ContractPolicy(
        revision=revision,
        terms_by_class={
            name: _class_terms(spec.boundary, promised) for name, promised in spec.classes.items()
        },
    )


def admission_terms(revision: str, spec: AdmissionPolicySpec) -> AdmissionPolicyTerms:
    """What the gateway admits by. `revision` is `name@number`."""
    return AdmissionPolicyTerms(
        revision=revision,
        classes=tuple(
            ClassPolicy(
                name=request_class.name,
                match=request_class.match,
                priority=request_class.priority,
                max_queue=request_class.max_queue,
                deadline_seconds=request_class.deadline,
            )
            for request_class in spec.classes
        ),
        max_active_per_replica=spec.limits.max_active_per_replica,
    )


def tenant_policy(name: str, spec: TenantSpec) -> TenantPolicy:
    """One tenant as the gateway knows it."""
    return TenantPolicy(name=name, tier=spec.tier, records_content=spec.records_content)


def _class_terms(boundary: Boundary, promised: ClassContractSpec) -> ContractTerms:
    together = promised.together
    return ContractTerms(
        boundary=boundary,
        objectives=tuple(
            Objective(
                signal=objective.signal,
                target=objective.target,
                at_most_seconds=objective.at_most,
            )
            for objective in promised.objectives
        ),
        together=together.of if together else (),
        together_target=together.target if together else None,
    )

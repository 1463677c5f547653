"""From documents to what a gateway enforces: the one place where that translation is made."""

from controlplane.specs.contract import ClassContractSpec, SLOContractSpec
from controlplane.specs.policy import (
    AdmissionPolicySpec,
    DegradeSpec,
    KVLimitsSpec,
    OverloadSpec,
    QueueLimitsSpec,
    RoutingSpec,
    SlowClientsSpec,
    read_condition,
)
from controlplane.specs.tenant import TenantSpec
from dataplane.contract_terms import ContractTerms, Objective
from dataplane.latency import Boundary
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    ContractPolicy,
    DegradeTerms,
    KVLimits,
    OverloadTerms,
    QueueLimits,
    RoutingTerms,
    TenantLimits,
    TenantPolicy,
)
from dataplane.slow_client_terms import SlowClientTerms


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
                first_token_seconds=request_class.first_token,
                aging_per_second=request_class.aging or 0.0,
            )
            for request_class in spec.classes
        ),
        max_active_per_replica=spec.limits.max_active_per_replica,
        tpot_seconds=spec.limits.tpot,
        max_prompt_tokens_in_flight=spec.limits.max_prompt_tokens_in_flight,
        queue=_queue_limits(spec.limits.queue),
        kv=None if spec.limits.kv is None else _kv_limits(spec.limits.kv),
        tenants={
            name: TenantLimits(
                weight=tenant.weight,
                tokens_per_minute=tenant.tokens_per_minute,
                max_concurrent=tenant.max_concurrent,
            )
            for name, tenant in spec.tenants.items()
        },
        overload=None if spec.overload is None else _overload_terms(spec.overload),
        routing=RoutingTerms() if spec.routing is None else _routing_terms(spec.routing),
        slow_clients=_slow_client_terms(spec.slow_clients or SlowClientsSpec()),
    )


def tenant_policy(name: str, spec: TenantSpec) -> TenantPolicy:
    """One tenant as the gateway knows it."""
    return TenantPolicy(name=name, tier=spec.tier, records_content=spec.records_content)


def _queue_limits(spec: QueueLimitsSpec | None) -> QueueLimits:
    if spec is None:
        return QueueLimits()
    return QueueLimits(
        max_requests=spec.requests,
        max_tokens=spec.tokens,
        max_bytes=spec.bytes,
        max_age_seconds=spec.age,
    )


def _kv_limits(spec: KVLimitsSpec) -> KVLimits:
    return KVLimits(reserve=spec.reserve, quantile=spec.quantile, watermark=spec.watermark)


def _overload_terms(spec: OverloadSpec) -> OverloadTerms:
    return OverloadTerms(
        shed=spec.shed,
        degrade=None if spec.degrade is None else _degrade_terms(spec.degrade),
        retry_budget=spec.retry_budget,
    )


def _degrade_terms(spec: DegradeSpec) -> DegradeTerms:
    seconds, includes_bound = read_condition(spec.when)
    return DegradeTerms(
        queue_age_seconds=seconds,
        includes_bound=includes_bound,
        max_tokens=spec.max_tokens,
        fallback=spec.fallback,
    )


def _routing_terms(spec: RoutingSpec) -> RoutingTerms:
    return RoutingTerms(
        policy=spec.policy, settings=dict(spec.settings), affinity_header=spec.affinity_header
    )


def _slow_client_terms(spec: SlowClientsSpec) -> SlowClientTerms:
    return SlowClientTerms(
        max_waiting_bytes=spec.buffer, then=spec.then, pause_seconds=spec.pause_at_most
    )


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

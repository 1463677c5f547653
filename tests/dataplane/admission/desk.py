"""Admission of one deployment, and the requests that it let in."""

from typing import Any

from dataplane.admission.admit import Rejected, RejectionKind
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.deployment_admission import (
    AdmissionHold,
    Arrival,
    Considered,
    DeploymentAdmission,
)
from dataplane.arm import Arm
from dataplane.enforced_snapshot import CompiledPolicy, compile_snapshot
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    Override,
    Snapshot,
    TenantLimits,
    TenantPolicy,
)
from dataplane.queueing.demand import QueueDemand
from dataplane.queueing.queue import DeploymentQueue, Ticket
from tests.dataplane.plain_clock import PlainClock

CHAT = ClassPolicy(name="chat", match='tenant.name == "acme"', priority=10)


BATCH = ClassPolicy(name="batch")


LIMITS = {"default": TenantLimits(max_concurrent=2, tokens_per_minute=100)}


def compiled(**terms: Any) -> CompiledPolicy:
    policy = AdmissionPolicyTerms(**({"revision": "p@1", "classes": (CHAT, BATCH)} | terms))
    deployment = DeploymentPolicy(
        name="chat",
        model_name="m",
        model_revision="m@1",
        engine_config_revision="e@1",
        tokenizer_artifact=None,
        max_model_len=None,
        policy=policy,
        contract=None,
        replicas=(),
    )
    return compile_snapshot(Snapshot(version=1, deployments=(deployment,))).policies[
        "chat", Arm.STABLE
    ]


def arrival(tenant: str = "acme", **fields: Any) -> Arrival:
    facts: dict[str, Any] = {
        "model": "m",
        "stream": False,
        "num_prompt_tokens": 10,
        "max_output_tokens": 20,
        "headers": {},
    } | fields
    return Arrival(tenant=TenantPolicy(name=tenant), facts=RequestFacts(**facts))


class Desk:
    """Admission of a deployment with so many slots, and the requests that it let in."""

    def __init__(self, policy: CompiledPolicy, num_slots: int = 1) -> None:
        self.clock = PlainClock()
        self.policy = policy
        self.queue = DeploymentQueue(self.clock, 5.0)
        self.queue.set_replicas({"r1": num_slots})
        self.admission = DeploymentAdmission("chat", self.queue, self.clock)

    def consider(self, who: Arrival, *overrides: Override) -> Considered:
        return self.admission.consider(self.policy, who, 1, overrides=overrides)

    def come(self, who: Arrival) -> tuple[Ticket, AdmissionHold | None] | Rejected:
        considered = self.consider(who)
        decision = considered.decision
        if isinstance(decision, Rejected):
            self.admission.refuse(who)
            return decision
        hold = self.admission.hold(who, considered)
        num_tokens = who.facts.num_prompt_tokens + decision.max_output_tokens
        demand = QueueDemand(tenant=who.tenant.name, num_tokens=num_tokens)
        return self.queue.enter(decision.request_class, demand), hold

    def wait(self, who: Arrival) -> Ticket:
        came = self.come(who)
        assert not isinstance(came, Rejected), came
        return came[0]

    def refused(self, who: Arrival) -> RejectionKind:
        came = self.come(who)
        assert isinstance(came, Rejected)
        return came.kind

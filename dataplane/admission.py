"""Who may enter: a pure decision over the enforced policy, with its reason.

A policy is compiled once, when its snapshot is taken over, so that an expression that
cannot work is refused there and never met by a request. A request belongs to the first
class whose `match` holds; an expression that fails on this very request (a header it
reads is absent) does not hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from cel_expr_python import cel

from dataplane.access import KeyRing
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    Snapshot,
    SnapshotError,
    TenantPolicy,
)


class Expression(Protocol):
    """A compiled CEL expression."""

    def eval(self, *, data: Mapping[str, Any]) -> Any: ...


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `match` may read of a request, beside its tenant."""

    model: str
    stream: bool
    num_prompt_tokens: int
    max_output_tokens: int
    headers: Mapping[str, str]
    """Names in lower case."""


class QueueLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The deployment's queue at the moment of the decision."""

    num_waiting_by_class: Mapping[str, int]
    has_free_slot: bool
    """Somebody could start at once."""
    num_replicas: int
    """Replicas the snapshot names, connected or not."""
    is_draining: bool = False
    """The gateway is about to end."""


class RejectionKind(StrEnum):
    """Why a request may not even wait."""

    DRAINING = "draining"
    NO_REPLICA = "no_replica"
    NO_CLASS = "no_class"
    QUEUE_FULL = "queue_full"


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The request may wait for a slot, in this class."""

    request_class: ClassPolicy
    policy_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The request may not wait."""

    kind: RejectionKind
    reason: str
    policy_revision: str
    request_class: ClassPolicy | None = None
    retry_after_seconds: int | None = None
    """None: trying again changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPolicy:
    """One admission policy, ready to be asked."""

    terms: AdmissionPolicyTerms
    expressions: tuple[Expression | None, ...]
    """One for each class; None matches everything."""

    def find_class(self, tenant: TenantPolicy, facts: RequestFacts) -> ClassPolicy | None:
        """The first class that takes the request, or None."""
        activation: Mapping[str, Any] | None = None
        for request_class, expression in zip(self.terms.classes, self.expressions, strict=True):
            if expression is None:
                return request_class
            if activation is None:
                activation = _activation(tenant, facts)
            # An evaluation that fails gives an error value, which is not True either.
            if expression.eval(data=activation).value() is True:
                return request_class
        return None


def _activation(tenant: TenantPolicy, facts: RequestFacts) -> Mapping[str, Any]:
    """What an expression may read."""
    return {
        "tenant": {"name": tenant.name, "tier": tenant.tier},
        "request": {
            "model": facts.model,
            "stream": facts.stream,
            "num_prompt_tokens": facts.num_prompt_tokens,
            "max_output_tokens": facts.max_output_tokens,
            "headers": dict(facts.headers),
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcedSnapshot:
    """A snapshot together with its compiled policies, by deployment name, and its keys."""

    snapshot: Snapshot
    policies: Mapping[str, CompiledPolicy]
    keys: KeyRing

    def policy_of(self, deployment: DeploymentPolicy) -> CompiledPolicy:
        """The compiled policy of one of this snapshot's deployments."""
        return self.policies[deployment.name]


def compile_snapshot(snapshot: Snapshot) -> EnforcedSnapshot:
    """Raises SnapshotError naming deployment, class and expression that cannot be enforced."""
    environment = cel.NewEnv(
        variables={
            "tenant": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
            "request": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        }
    )
    policies = {
        deployment.name: CompiledPolicy(
            terms=deployment.policy,
            expressions=tuple(
                _compile(environment, deployment, request_class)
                for request_class in deployment.policy.classes
            ),
        )
        for deployment in snapshot.deployments
    }
    return EnforcedSnapshot(snapshot=snapshot, policies=policies, keys=KeyRing(snapshot.keys))


def _compile(
    environment: Any, deployment: DeploymentPolicy, request_class: ClassPolicy
) -> Expression | None:
    if request_class.match is None:
        return None
    where = (
        f"snapshot refused: policy {deployment.policy.revision} of deployment "
        f"{deployment.name}, class {request_class.name}, match {request_class.match!r}"
    )
    try:
        expression = environment.compile(request_class.match)
    except RuntimeError as error:
        raise SnapshotError(f"{where}: {error}") from error
    returned = expression.return_type()
    if returned not in (cel.Type.BOOL, cel.Type.DYN):
        raise SnapshotError(f"{where}: gives {returned.name()}, and must give a bool")
    compiled: Expression = expression
    return compiled


def admit(
    policy: CompiledPolicy, tenant: TenantPolicy, facts: RequestFacts, load: QueueLoad
) -> Admitted | Rejected:
    """Decide whether a request may wait; what is admitted starts at once when a slot is free."""
    revision = policy.terms.revision
    if load.is_draining:
        return Rejected(
            kind=RejectionKind.DRAINING,
            reason="this gateway is shutting down",
            policy_revision=revision,
            retry_after_seconds=1,
        )
    request_class = policy.find_class(tenant, facts)
    if request_class is None:
        return Rejected(
            kind=RejectionKind.NO_CLASS,
            reason=f"no request class of policy {revision} takes this request",
            policy_revision=revision,
        )
    if load.num_replicas == 0:
        return Rejected(
            kind=RejectionKind.NO_REPLICA,
            reason="no replica serves this deployment",
            policy_revision=revision,
            request_class=request_class,
            retry_after_seconds=5,
        )
    num_waiting = load.num_waiting_by_class.get(request_class.name, 0)
    if not load.has_free_slot and num_waiting >= request_class.max_queue:
        return Rejected(
            kind=RejectionKind.QUEUE_FULL,
            reason=(
                f"{num_waiting} requests of class {request_class.name} are waiting, "
                f"and max_queue is {request_class.max_queue}"
            ),
            policy_revision=revision,
            request_class=request_class,
            retry_after_seconds=1,
        )
    return Admitted(request_class=request_class, policy_revision=revision)

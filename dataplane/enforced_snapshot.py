"""A snapshot as it is enforced: its classes compiled, so that what cannot work is refused with it
and never met by a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.access import KeyRing
from dataplane.admission.class_matching import ClassMatcher, MatchRefusedError, RequestFacts
from dataplane.admission.overrides import without_limits
from dataplane.arm import Arm
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    QueueLimits,
    Snapshot,
    SnapshotError,
    TenantPolicy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPolicy:
    """One admission policy, ready to be asked."""

    terms: AdmissionPolicyTerms
    classes: ClassMatcher
    unlimited: AdmissionPolicyTerms
    """The same with nothing in it that keeps a request out: for whom an override lets pass."""
    open_class: ClassPolicy | None
    """Of a policy that asks nothing of a request: the class that takes all; None: it asks."""

    def find_class(self, tenant: TenantPolicy, facts: RequestFacts) -> ClassPolicy | None:
        """The first class that takes the request, or None."""
        return self.classes.find(tenant, facts)

    def unlimited_class(self, name: str) -> ClassPolicy:
        """A class of `unlimited`. Raises KeyError for one that there is not."""
        for each in self.unlimited.classes:
            if each.name == name:
                return each
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcedSnapshot:
    """A snapshot together with its compiled policies, by deployment and arm, and its keys."""

    snapshot: Snapshot
    policies: Mapping[tuple[str, Arm], CompiledPolicy]
    keys: KeyRing

    def policy_of(self, deployment: DeploymentPolicy) -> CompiledPolicy:
        """The compiled policy of one of this snapshot's deployments, in either arm."""
        return self.policies[deployment.name, deployment.arm]


def compile_snapshot(
    snapshot: Snapshot, before: EnforcedSnapshot | None = None
) -> EnforcedSnapshot:
    """What is the same as `before` is taken from there.

    Raises SnapshotError naming deployment, class and expression that cannot be enforced.
    """
    known = {} if before is None else before.policies
    policies = {
        (each.name, each.arm): _compile(each, known.get((each.name, each.arm)))
        for each in snapshot.arms
    }
    return EnforcedSnapshot(snapshot=snapshot, policies=policies, keys=KeyRing(snapshot.keys))


def _compile(deployment: DeploymentPolicy, known: CompiledPolicy | None) -> CompiledPolicy:
    terms = deployment.policy
    if known is not None and (known.terms is terms or known.terms == terms):
        return known
    try:
        return CompiledPolicy(
            terms=terms,
            classes=ClassMatcher(terms.classes),
            unlimited=without_limits(terms),
            open_class=find_open_class(terms),
        )
    except MatchRefusedError as error:
        raise SnapshotError(
            f"snapshot refused: policy {terms.revision} of deployment {deployment.name}, {error}"
        ) from error


def find_open_class(terms: AdmissionPolicyTerms) -> ClassPolicy | None:
    """The class that takes every request of a policy that bounds nothing but how many wait."""
    first = terms.classes[0]
    asks = (
        first.match is not None
        or first.deadline_seconds is not None
        or first.first_token_seconds is not None
        or terms.queue != QueueLimits()
        or terms.max_prompt_tokens_in_flight is not None
        or terms.kv is not None
        or terms.tenants
        or terms.overload is not None
    )
    return None if asks else first

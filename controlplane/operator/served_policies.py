"""What gateways are told of each deployment, made anew only where something of it is different.

A pass looks at every deployment, and of nearly all of them nothing has changed: they are then the
very same objects, which takes no time to make, to compare, or to send.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from controlplane.operator.desired import desired_replicas, max_model_len
from controlplane.operator.replica import Replica
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.enforced import admission_terms, contract_policy
from controlplane.specs.model import ArtifactError, ModelSpec
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.replicas import ReplicaState
from dataplane.engine import ReplicaSpec
from dataplane.policy import DeploymentPolicy, ReplicaEndpoint


class ReadyReplicas:
    """Those that may be sent traffic, by deployment and id."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        self._by_deployment: dict[str, list[Replica]] = defaultdict(list)
        for each in replicas:
            if each.state is ReplicaState.READY:
                self._by_deployment[each.spec.deployment].append(each)
        for found in self._by_deployment.values():
            found.sort(key=lambda each: each.replica_id)

    def of(self, deployment: str) -> Sequence[Replica]:
        """All of a deployment, in either arm."""
        return self._by_deployment.get(deployment, ())

    def of_stable_arm(self, desired: DesiredDeployment) -> list[Replica]:
        """Those that are no candidate's."""
        trying = None if desired.rollout is None else desired.rollout.number
        ready = self.of(desired.name)
        return [each for each in ready if each.rollout is None or each.rollout != trying]


@dataclass(frozen=True, slots=True)
class _Source:
    """All that a deployment's policy is made of. Revisions never change, nor do specs of replicas:
    they are mostly the same objects, and then equal at once."""

    desired: DesiredDeployment
    spec: ReplicaSpec
    serving: tuple[tuple[ReplicaSpec, str | None], ...]
    tokenizer_artifact: str | None


class ServedPolicies:
    """One publisher's: remembers what it made."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[_Source, DeploymentPolicy]] = {}

    def of(
        self,
        desired: DesiredDeployment,
        ready: Sequence[Replica],
        running_models: Mapping[str, ModelSpec],
    ) -> DeploymentPolicy:
        """One deployment as gateways serve it. Revisions named are those that its replicas run."""
        spec = ready[0].spec if ready else desired_replicas(desired).template
        model = running_models.get(spec.model_revision, desired.revisions.model.spec(ModelSpec))
        source = _Source(
            desired=desired,
            spec=spec,
            serving=tuple((each.spec, each.address) for each in ready),
            tokenizer_artifact=find_tokenizer(model, spec),
        )
        before = self._made.get(desired.name)
        if before is not None and before[0] == source:
            return before[1]
        made = _policy(source, ready)
        self._made[desired.name] = source, made
        return made

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(names)
        self._made = {name: each for name, each in self._made.items() if name in kept}


def endpoints(ready: Sequence[Replica]) -> tuple[ReplicaEndpoint, ...]:
    """As gateways reach them."""
    return tuple(_endpoint(each) for each in ready)


def _policy(source: _Source, ready: Sequence[Replica]) -> DeploymentPolicy:
    desired, spec = source.desired, source.spec
    revisions, is_observed_only = desired.revisions, desired.spec.observe_only
    return DeploymentPolicy(
        name=desired.name,
        model_name=revisions.model.name,
        model_revision=spec.model_revision,
        engine_config_revision=spec.engine_config_revision,
        tokenizer_artifact=source.tokenizer_artifact,
        max_model_len=max_model_len(spec),
        policy=admission_terms(revisions.policy.label, revisions.policy.spec(AdmissionPolicySpec)),
        contract=(
            contract_policy(revisions.contract.label, revisions.contract.spec(SLOContractSpec))
            if revisions.contract
            else None
        ),
        replicas=() if is_observed_only else endpoints(ready),
        is_observed_only=is_observed_only,
        created_at_unix=revisions.model.created_at_unix_ns // 10**9,
    )


def _endpoint(replica: Replica) -> ReplicaEndpoint:
    if replica.address is None:
        raise ValueError(f"replica {replica.replica_id} is ready and has no address")
    return ReplicaEndpoint(
        replica_id=replica.replica_id,
        engine=replica.spec.engine,
        address=replica.address,
        fencing_token=replica.spec.fencing_token,
        model_revision=replica.spec.model_revision,
        engine_config_revision=replica.spec.engine_config_revision,
        settings={
            key: value
            for key, value in replica.spec.settings.items()
            if value is None or isinstance(value, str | int | float | bool) or _are_names(value)
        },
    )


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def find_tokenizer(model: ModelSpec, spec: ReplicaSpec) -> str | None:
    """Its file on this machine; None where there is none, and prompts are counted otherwise."""
    if model.tokenizer is None:
        # The replica's own weights, even if they have been moved away since: a gateway that
        # has read them goes on counting.
        return None if model.artifact.url is not None else spec.artifact or None
    try:
        return model.tokenizer.resolve()
    except ArtifactError:
        # The operator says so where it lacks the artifact; counts are then marked inferred.
        return None

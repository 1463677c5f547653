"""What should run: deployments, turned into the replicas that they stand for.

Under a rollout that tries another model or engine config a deployment has two arms, each with
replicas of its own; they share the room that there is for its replicas.
"""

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from controlplane.rollouts.arm_sizes import ArmSizes, arm_sizes
from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.specs.model import ArtifactError, ModelSpec
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.revision import Revision
from controlplane.store.rollouts import StoredRollout
from dataplane.engine import ReplicaSpec
from dataplane.host.wire import PROTOCOL_VERSION

_MAX_MODEL_LEN = "max_model_len"
"""The one setting that every engine has: a Model may bound it as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredReplicas:
    """The replicas of one deployment, or of one arm of it: N interchangeable ones."""

    deployment: str
    generation: int
    launcher: str
    num_replicas: int
    template: ReplicaSpec
    """The spec of each, but for the id."""
    digest: str
    """Of the template."""
    max_surge: int = 0
    """So many more may be alive while replicas are replaced."""
    max_unavailable: int = 1
    """So many may be missing while replicas are replaced."""
    max_alive: int | None = None
    """Of the whole deployment, both arms together; None: as many as these and their surge."""
    rollout: int | None = None
    """Of the candidate arm: its rollout."""
    beside_rollout: int | None = None
    """Of the stable arm: the rollout that is under way."""
    is_observed_only: bool = False
    """Nothing is sent to it."""
    problem: str | None = None
    """Why none can be started, with the remedy; what runs already goes on."""

    @property
    def lane(self) -> str:
        """What holds and failures are told of: the deployment, or its candidate."""
        return lane_of(self.deployment, self.rollout)


def lane_of(deployment: str, rollout: int | None) -> str:
    """A deployment, or the candidate of a rollout of it."""
    return deployment if rollout is None else f"{deployment} (rollout {rollout})"


def spec_digest(spec: ReplicaSpec) -> str:
    """SHA-256 of a spec without its id and token: replicas with the same one are interchangeable.

    What it is of is written as before there were tokens, so that an upgrade restarts nothing.
    """
    told = {field.name: getattr(spec, field.name) for field in fields(spec)}
    del told["fencing_token"]
    settings = msgspec.Raw(msgspec.json.encode(spec.settings, order="deterministic"))
    encoded = msgspec.json.encode(told | {"replica_id": "", "settings": settings})
    return hashlib.sha256(encoded).hexdigest()


def desired_arms(deployment: DesiredDeployment) -> list[DesiredReplicas]:
    """All that should run of it: the stable arm first, and under a rollout that needs replicas of
    its own, the candidate's."""
    stable, rollout = desired_replicas(deployment), deployment.rollout
    if rollout is None or not rollout.has_own_replicas:
        return [stable]
    sizes = rollout_sizes(deployment, rollout)
    max_alive = stable.num_replicas + stable.max_surge
    candidate = desired_candidate(deployment, rollout)
    return [
        replace(
            stable,
            num_replicas=sizes.stable,
            max_alive=max_alive,
            beside_rollout=rollout.number,
        ),
        replace(
            candidate,
            num_replicas=sizes.candidate,
            max_alive=max_alive,
            rollout=rollout.number,
        ),
    ]


def rollout_sizes(deployment: DesiredDeployment, rollout: StoredRollout) -> ArmSizes:
    """Replicas of both arms at the step that it is at."""
    spec, share = deployment.spec, rollout.strategy.share_ahead(rollout.progress.step)
    replacement = spec.replacement
    return arm_sizes(spec.replicas, share, replacement.max_surge, replacement.max_unavailable)


def desired_candidate(deployment: DesiredDeployment, rollout: StoredRollout) -> DesiredReplicas:
    """The replicas that its candidate stands for, as many as the deployment has."""
    return _replicas(deployment, rollout.candidate.model, rollout.candidate.engine_config)


def desired_replicas(deployment: DesiredDeployment) -> DesiredReplicas:
    """The replicas that `deployment` stands for, on this machine, but for those of a candidate."""
    return _replicas(deployment, deployment.revisions.model, deployment.revisions.engine_config)


def _replicas(
    deployment: DesiredDeployment, of_model: Revision, of_engine_config: Revision
) -> DesiredReplicas:
    model = of_model.spec(ModelSpec)
    engine_config = of_engine_config.spec(EngineConfigSpec)
    artifact, problem = _resolve(model)
    template = ReplicaSpec(
        replica_id="",
        deployment=deployment.name,
        engine=engine_config.engine,
        model_name=of_model.name,
        model_revision=of_model.label,
        engine_config_revision=of_engine_config.label,
        artifact=artifact,
        settings=_settings(model, engine_config),
        protocol_version=PROTOCOL_VERSION,
    )
    return DesiredReplicas(
        deployment=deployment.name,
        generation=deployment.generation,
        launcher=deployment.spec.launcher,
        num_replicas=deployment.spec.replicas,
        template=template,
        digest=spec_digest(template),
        max_surge=deployment.spec.replacement.max_surge,
        max_unavailable=deployment.spec.replacement.max_unavailable,
        is_observed_only=deployment.spec.observe_only,
        problem=problem or _unobservable(deployment, model),
    )


def max_model_len(spec: ReplicaSpec) -> int | None:
    """Prompt plus output tokens of one sequence, as the documents bound them; None: they do not."""
    bound = spec.settings.get(_MAX_MODEL_LEN)
    return bound if isinstance(bound, int) else None


def _settings(model: ModelSpec, engine_config: EngineConfigSpec) -> dict[str, Any]:
    """What the engine is told. The model's bound is told too: gateway and engine then agree."""
    settings: dict[str, Any] = dict(engine_config.settings)
    if model.max_model_len is not None:
        own = settings.get(_MAX_MODEL_LEN)
        bounds = [model.max_model_len, *([own] if isinstance(own, int) else [])]
        settings[_MAX_MODEL_LEN] = min(bounds)
    return settings


def _unobservable(deployment: DesiredDeployment, model: ModelSpec) -> str | None:
    if not deployment.spec.observe_only or model.artifact.url is not None:
        return None
    return (
        "observe_only watches a server that runs already: give its Model the server's url, or take "
        "observe_only out of the Deployment"
    )


def _resolve(model: ModelSpec) -> tuple[str, str | None]:
    try:
        return model.resolve_artifact(), None
    except ArtifactError as error:
        return "", str(error)

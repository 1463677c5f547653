"""What should run: deployments, turned into the replicas that they stand for."""

import hashlib
from dataclasses import dataclass, replace

import msgspec

from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.specs.model import ArtifactError, ModelSpec
from controlplane.store.deployments import DesiredDeployment
from dataplane.engine import ReplicaSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredReplicas:
    """The replicas of one deployment: N interchangeable ones."""

    deployment: str
    generation: int
    launcher: str
    num_replicas: int
    template: ReplicaSpec
    """The spec of each, but for the id."""
    digest: str
    """Of the template."""
    problem: str | None = None
    """Why none can be started, with the remedy; what runs already goes on."""


def spec_digest(spec: ReplicaSpec) -> str:
    """SHA-256 of a spec without its id: replicas with the same one are interchangeable."""
    encoded = msgspec.json.encode(replace(spec, replica_id=""), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()


def desired_replicas(deployment: DesiredDeployment) -> DesiredReplicas:
    """The replicas that `deployment` stands for, on this machine."""
    revisions = deployment.revisions
    model = revisions.model.spec(ModelSpec)
    engine_config = revisions.engine_config.spec(EngineConfigSpec)
    artifact, problem = _resolve(model)
    template = ReplicaSpec(
        replica_id="",
        deployment=deployment.name,
        engine=engine_config.engine,
        model_name=revisions.model.name,
        model_revision=revisions.model.label,
        engine_config_revision=revisions.engine_config.label,
        artifact=artifact,
        settings=dict(engine_config.settings),
    )
    return DesiredReplicas(
        deployment=deployment.name,
        generation=deployment.generation,
        launcher=deployment.spec.launcher,
        num_replicas=deployment.spec.replicas,
        template=template,
        digest=spec_digest(template),
        problem=problem,
    )


def _resolve(model: ModelSpec) -> tuple[str, str | None]:
    try:
        return model.resolve_artifact(), None
    except ArtifactError as error:
        return "", str(error)

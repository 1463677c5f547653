"""What should run: deployments, turned into the replicas that they stand for."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.specs.model import ArtifactError, ModelSpec
from controlplane.store.deployments import DesiredDeployment
from dataplane.engine import ReplicaSpec
from dataplane.host.wire import PROTOCOL_VERSION

_MAX_MODEL_LEN = "max_model_len"
"""The one setting that every engine has: a Model may bound it as well."""


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
    max_surge: int = 0
    """So many more may be alive while replicas are replaced."""
    max_unavailable: int = 1
    """So many may be missing while replicas are replaced."""
    is_observed_only: bool = False
    """Nothing is sent to it."""
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

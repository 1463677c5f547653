"""Deployment: a named service."""

from typing import Self

from pydantic import Field, model_validator

from controlplane.specs.kind import Kind, SpecModel
from controlplane.specs.names import Name, Reference, ReferenceText, parse_reference
from controlplane.specs.rollout import RolloutSpec


class ReplicaPriceSpec(SpecModel):
    """What one replica costs."""

    per_hour: float = Field(ge=0, le=1_000_000, examples=[2.4])
    """For an hour of one replica, from its start to its end, whether it works or not."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", examples=["EUR"])
    """Three capital letters; nothing is converted."""


class ReplacementSpec(SpecModel):
    """How replicas of another revision take the place of those that run."""

    max_surge: int = Field(default=0, ge=0, le=1000, examples=[1])
    """So many more than `replicas` may be alive meanwhile: there must be memory for them."""
    max_unavailable: int = Field(default=1, ge=0, le=1000, examples=[0])
    """So many of `replicas` may be missing meanwhile: those of before are ended first."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.max_surge and not self.max_unavailable:
            raise ValueError(
                "with neither max_surge nor max_unavailable nothing could ever be replaced: set "
                "max_surge where there is memory for one more replica, or else max_unavailable"
            )
        return self


class DeploymentSpec(SpecModel):
    """One model, one engine config, one policy, perhaps a contract, and N replicas.

    A bare name follows the latest revision, `name@3` stays with the third.
    """

    model: ReferenceText
    """A Model."""
    engine: ReferenceText
    """An EngineConfig."""
    policy: ReferenceText
    """An AdmissionPolicy."""
    contract: ReferenceText | None = None
    """An SLOContract; None: nothing is promised."""
    replicas: int = Field(default=1, ge=0, le=1000)
    """How many engines should run; 0 stops all."""
    replacement: ReplacementSpec = ReplacementSpec()
    """How replicas are replaced when Model or EngineConfig change: without it, one after the other,
    each ended before the next starts."""
    rollout: RolloutSpec | None = None
    """How it moves to another Model, EngineConfig or AdmissionPolicy: in steps, compared with what
    runs, and back where it does worse; None: at once."""
    launcher: Name = "local"
    """The plugin that places replicas."""
    observe_only: bool = False
    """Nothing passes through Pilothouse: it reads the metrics of the server that the Model's url
    names, and gateways refuse requests for it. For an engine behind an ingress of its own."""
    replica_price: ReplicaPriceSpec | None = None
    """What one replica costs; a change of it replaces no replica. `pilothouse usage` shows what
    requests cost by it; None: it shows no cost."""

    def references(self) -> dict[str, tuple[Kind, Reference]]:
        """What this deployment refers to, by field."""
        texts = {
            "model": (Kind.MODEL, self.model),
            "engine": (Kind.ENGINE_CONFIG, self.engine),
            "policy": (Kind.ADMISSION_POLICY, self.policy),
            "contract": (Kind.SLO_CONTRACT, self.contract),
        }
        return {
            field: (kind, parse_reference(text))
            for field, (kind, text) in texts.items()
            if text is not None
        }

"""Deployment: a named service."""

from pydantic import Field

from controlplane.specs.kind import Kind, SpecModel
from controlplane.specs.names import Name, Reference, ReferenceText, parse_reference


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
    launcher: Name = "local"
    """The plugin that places replicas."""

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

"""A large installation, as its exporters and rules are tried on it."""

import json
from dataclasses import dataclass

from controlplane.slo.promised import Promise, promises_of
from controlplane.specs.contract import SLOContractSpec

OBJECTIVES = (
    {"signal": "ttft", "at_most": "300ms", "for": "99%"},
    {"signal": "tpot", "at_most": "40ms", "for": "95%"},
    {"signal": "availability", "for": "99.9%"},
)
TOGETHER = {"of": ["ttft", "tpot"], "for": "95%"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How large it is."""

    num_deployments: int = 50
    num_classes: int = 8
    num_tenants: int = 200

    @property
    def deployments(self) -> list[str]:
        """Their names."""
        return [f"deployment-{number:02}" for number in range(self.num_deployments)]

    @property
    def classes(self) -> list[str]:
        """Of each deployment's contract."""
        return [f"class-{number}" for number in range(self.num_classes)]

    @property
    def tenants(self) -> list[str]:
        """All that send requests."""
        return [f"tenant-{number:03}" for number in range(self.num_tenants)]

    @property
    def scopes(self) -> list[tuple[str, str]]:
        """Every class of every deployment."""
        return [(deployment, name) for deployment in self.deployments for name in self.classes]

    def contract(self) -> SLOContractSpec:
        """Of every deployment: three objectives and the joint one, as in the demo."""
        promised = {"objectives": OBJECTIVES, "together": TOGETHER}
        document = {
            "boundary": "server",
            "window": "30d",
            "classes": dict.fromkeys(self.classes, promised),
        }
        return SLOContractSpec.model_validate_json(json.dumps(document))

    def promises(self, deployment: str) -> list[Promise]:
        """Of one deployment."""
        return list(promises_of(deployment, "large@1", self.contract()))

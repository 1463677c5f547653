"""One config document: what was written, checked.

Its canonical form is what a revision stores and what its digest is taken of: the fields that
were written, quantities in one spelling, keys sorted, no formatting. Defaults are left out:
a later version that adds a field or changes a default changes no digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.deployment import DeploymentSpec
from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.specs.kind import API_VERSION, Kind, SpecModel, canonical_json, digest_of
from controlplane.specs.model import ModelSpec
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec

SPECS: Mapping[Kind, type[SpecModel]] = {
    Kind.MODEL: ModelSpec,
    Kind.ENGINE_CONFIG: EngineConfigSpec,
    Kind.SLO_CONTRACT: SLOContractSpec,
    Kind.ADMISSION_POLICY: AdmissionPolicySpec,
    Kind.TENANT: TenantSpec,
    Kind.DEPLOYMENT: DeploymentSpec,
}


class StoredDocumentError(Exception):
    """A stored revision that this version of Pilothouse cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A checked document."""

    kind: Kind
    name: str
    spec: SpecModel
    """Of the class that SPECS has for `kind`."""

    @property
    def canonical(self) -> dict[str, Any]:
        """The canonical form, as plain JSON types."""
        spec = self.spec.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True
        )
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind.value,
            "metadata": {"name": self.name},
            "spec": spec,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return digest_of(self.canonical)


def read_stored_spec(kind: Kind, document: Mapping[str, Any]) -> SpecModel:
    """The spec of a document in canonical form, as a revision stores it.

    Raises StoredDocumentError.
    """
    try:
        return SPECS[kind].model_validate_json(canonical_json(document["spec"]))
    except (ValidationError, KeyError, TypeError) as error:
        metadata = document.get("metadata") if isinstance(document, Mapping) else None
        raise StoredDocumentError(
            f"stored {kind} document {metadata} cannot be read: {error}"
        ) from error

"""The snapshot: everything a gateway enforces, as one versioned document.

The control plane builds it, the gateway checks it whole before it replaces the last
one and keeps it on disk, so that a gateway serves on with the control plane away.
Every admission decision cites `Snapshot.version` and the revisions in it.
"""

from dataclasses import dataclass, field

import msgspec

from dataplane.access import AccessKey
from dataplane.contract_terms import ContractTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """One tenant as the gateway knows it."""

    name: str
    tier: str = "standard"
    records_content: bool = False
    """The tenant opted in to prompts and outputs being stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPolicy:
    """One request class: who belongs to it and how long it may wait."""

    name: str
    match: str | None = None
    """CEL over `tenant` and `request`; None matches everything."""
    priority: int = 0
    """Higher goes first."""
    max_queue: int = 512
    """Requests of this class that may wait."""
    deadline_seconds: float | None = None
    """Longest wait for engine work; None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicyTerms:
    """One revision of an admission policy, as far as the gateway enforces it."""

    revision: str
    classes: tuple[ClassPolicy, ...]
    """In matching order: the first whose `match` holds takes the request."""
    max_active_per_replica: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractPolicy:
    """One revision of an SLO contract."""

    revision: str
    terms_by_class: dict[str, ContractTerms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEndpoint:
    """One replica that may be sent traffic."""

    replica_id: str
    engine: str
    address: str
    """host:port for engines of ours, the base URL for an attached endpoint."""
    settings: dict[str, str | int | float | bool | list[str] | None] = field(default_factory=dict)
    """The engine config's settings that its client needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPolicy:
    """One deployment as the gateway serves it."""

    name: str
    model_name: str
    """What clients put into `model`."""
    model_revision: str
    engine_config_revision: str
    tokenizer_artifact: str | None
    """Path of the file that holds tokenizer and chat template; None: counts are inferred."""
    max_model_len: int | None
    policy: AdmissionPolicyTerms
    contract: ContractPolicy | None
    replicas: tuple[ReplicaEndpoint, ...]
    created_at_unix: int = 0
    """For /v1/models: when the model revision was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a gateway enforces."""

    version: int
    """Grows with every change; 0 is the empty snapshot of a gateway that has seen none."""
    deployments: tuple[DeploymentPolicy, ...] = ()
    tenants: tuple[TenantPolicy, ...] = ()
    keys: tuple[AccessKey, ...] = ()
    """Of clients, and of who may read a gateway's own state."""

    def find_deployment(self, model: str) -> DeploymentPolicy | None:
        """The deployment that serves `model`: by deployment name, then by model name."""
        by_name = {deployment.name: deployment for deployment in self.deployments}
        if model in by_name:
            return by_name[model]
        return next((d for d in self.deployments if d.model_name == model), None)

    def find_tenant(self, name: str) -> TenantPolicy | None:
        """The tenant called `name`, or None."""
        return next((tenant for tenant in self.tenants if tenant.name == name), None)


EMPTY_SNAPSHOT = Snapshot(version=0)


class SnapshotError(ValueError):
    """A snapshot that must not be enforced; says where it is wrong."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """JSON."""
    return msgspec.json.encode(snapshot)


def decode_snapshot(data: bytes) -> Snapshot:
    """Decode and check a snapshot whole.

    Raises SnapshotError for wrong types and for documents that contradict themselves.
    """
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise SnapshotError(f"snapshot refused: {error}") from error
    _require_unique("deployment", [d.name for d in snapshot.deployments])
    _require_unique("tenant", [t.name for t in snapshot.tenants])
    _require_unique("key", [k.key_id for k in snapshot.keys])
    for deployment in snapshot.deployments:
        where = f"in deployment {deployment.name}"
        _require_unique(f"replica {where}", [r.replica_id for r in deployment.replicas])
        _require_unique(f"class {where}", [c.name for c in deployment.policy.classes])
        if not deployment.policy.classes:
            raise SnapshotError(f"snapshot refused: no request class {where}")
    return snapshot


def _require_unique(what: str, names: list[str]) -> None:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise SnapshotError(f"snapshot refused: {what} named twice: {', '.join(duplicates)}")

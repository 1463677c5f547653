"""The gateways' snapshot: built from what is desired and what is ready, numbered, handed on.

Its version grows only when its content changes, and the number is kept in the database, so
that a restart of the control plane changes nothing for a gateway.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from controlplane.operator.replica import Replica
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.enforced import admission_terms, contract_policy, tenant_policy
from controlplane.specs.kind import Kind
from controlplane.specs.model import ArtifactError, ModelSpec
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.tenant import TenantSpec
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.replicas import ReplicaState
from controlplane.store.revisions import list_latest
from dataplane.policy import (
    DeploymentPolicy,
    ReplicaEndpoint,
    Snapshot,
    TenantPolicy,
    encode_snapshot,
)


def read_tenants(session: Session) -> tuple[TenantPolicy, ...]:
    """The latest revision of every tenant."""
    return tuple(
        tenant_policy(revision.name, revision.spec(TenantSpec))
        for revision in list_latest(session, Kind.TENANT)
    )


def build_snapshot(
    deployments: Sequence[DesiredDeployment],
    tenants: tuple[TenantPolicy, ...],
    replicas: Sequence[Replica],
) -> Snapshot:
    """What gateways should enforce now, without its number."""
    return Snapshot(
        version=0,
        deployments=tuple(
            deployment_policy(each, _ready(replicas, each.name)) for each in deployments
        ),
        tenants=tenants,
    )


def snapshot_digest(unnumbered: Snapshot) -> str:
    """SHA-256 of a snapshot without its number."""
    return hashlib.sha256(encode_snapshot(replace(unnumbered, version=0))).hexdigest()


def deployment_policy(desired: DesiredDeployment, ready: Sequence[Replica]) -> DeploymentPolicy:
    """One deployment as gateways serve it. Revisions named are those that its replicas run."""
    revisions = desired.revisions
    model = revisions.model.spec(ModelSpec)
    running = ready[0].spec if ready else None
    return DeploymentPolicy(
        name=desired.name,
        model_name=revisions.model.name,
        model_revision=running.model_revision if running else revisions.model.label,
        engine_config_revision=(
            running.engine_config_revision if running else revisions.engine_config.label
        ),
        tokenizer_artifact=_tokenizer(model),
        max_model_len=model.max_model_len,
        policy=admission_terms(revisions.policy.label, revisions.policy.spec(AdmissionPolicySpec)),
        contract=(
            contract_policy(revisions.contract.label, revisions.contract.spec(SLOContractSpec))
            if revisions.contract
            else None
        ),
        replicas=tuple(_endpoint(replica) for replica in ready),
        created_at_unix=revisions.model.created_at_unix_ns // 10**9,
    )


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """One version as it is sent."""

    version: int
    data: bytes
    """JSON on one line."""


class SnapshotFeed:
    """The newest snapshot, and whoever wants to hear of the next. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: PublishedSnapshot | None = None
        self._listeners: set[Callable[[], object]] = set()

    @property
    def current(self) -> PublishedSnapshot | None:
        """None until the operator has looked for the first time: nobody knows anything yet,
        and an empty snapshot would cut gateways off from replicas that are fine."""
        return self._current

    def publish(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the current one; listeners hear of it if its version is new."""
        with self._lock:
            if self._current is not None and self._current.version == snapshot.version:
                return
            self._current = PublishedSnapshot(snapshot.version, encode_snapshot(snapshot))
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Inside, `listener` is called from the publisher's thread after every change."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)


def _ready(replicas: Sequence[Replica], deployment: str) -> list[Replica]:
    return sorted(
        (
            replica
            for replica in replicas
            if replica.spec.deployment == deployment and replica.state is ReplicaState.READY
        ),
        key=lambda replica: replica.replica_id,
    )


def _endpoint(replica: Replica) -> ReplicaEndpoint:
    if replica.address is None:
        raise ValueError(f"replica {replica.replica_id} is ready and has no address")
    return ReplicaEndpoint(
        replica_id=replica.replica_id,
        engine=replica.spec.engine,
        address=replica.address,
        settings={
            key: value
            for key, value in replica.spec.settings.items()
            if value is None or isinstance(value, str | int | float | bool)
        },
    )


def _tokenizer(model: ModelSpec) -> str | None:
    try:
        return model.resolve_tokenizer()
    except ArtifactError:
        # The operator says so where it lacks the artifact; counts are then marked inferred.
        return None

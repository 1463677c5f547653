"""The config database: revisions, deployments' generations, replicas and their history.

Request data has tables and a database of its own (see request_tables). Instants are UTC,
in integer nanoseconds since the Unix epoch: SQLite has no time type that keeps them, and
PostgreSQL's stops at microseconds. Stored enum values are lower-case words.
"""

from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite only numbers rows by itself for a column declared exactly INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")


class ConfigBase(DeclarativeBase):
    """Base of every table of the config database."""


class RevisionRow(ConfigBase):
    """One immutable version of one config document."""

    __tablename__ = "revisions"
    __table_args__ = (UniqueConstraint("kind", "name", "number"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(128))
    number: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the canonical form, in hex."""
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    author: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str] = mapped_column(String(1024))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class DeploymentRow(ConfigBase):
    """One deployment: which revision of it is desired, and how far the operator has come."""

    __tablename__ = "deployments"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    """The Deployment document's own revision; it resolves to the four below."""
    model_revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    engine_config_revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    policy_revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    contract_revision_id: Mapped[int | None] = mapped_column(ForeignKey("revisions.id"))
    generation: Mapped[int] = mapped_column(BigInteger, default=1)
    """Grows with every change of what is desired."""
    observed_generation: Mapped[int] = mapped_column(BigInteger, default=0)
    """The generation that the operator last brought about whole."""
    updated_at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class DeploymentChangeRow(ConfigBase):
    """History of a deployment: what was desired from when on ("what ran at 02:14")."""

    __tablename__ = "deployment_changes"
    __table_args__ = (Index("deployment_changes_by_time", "deployment", "at_unix_ns"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    deployment: Mapped[str] = mapped_column(String(128))
    generation: Mapped[int] = mapped_column(BigInteger)
    revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    """The Deployment document's own revision: replicas and launcher stand there."""
    model_revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    engine_config_revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    policy_revision_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    contract_revision_id: Mapped[int | None] = mapped_column(ForeignKey("revisions.id"))
    author: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str] = mapped_column(String(1024))
    at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class ReplicaRow(ConfigBase):
    """One replica, alive or gone. The id is never reused; liveness itself stays in memory."""

    __tablename__ = "replicas"
    __table_args__ = (
        Index("replicas_by_deployment", "deployment", "state"),
        Index("replicas_by_fencing_token", "fencing_token", unique=True),
    )

    replica_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    deployment: Mapped[str] = mapped_column(String(128))
    launcher: Mapped[str] = mapped_column(String(64))
    spec: Mapped[dict[str, Any]] = mapped_column(JSON)
    """The ReplicaSpec it was started from."""
    spec_digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the spec without the replica id: what adoption compares."""
    state: Mapped[str] = mapped_column(String(32))
    """starting, ready, draining, stopped or failed."""
    address: Mapped[str | None] = mapped_column(String(512))
    metrics_address: Mapped[str | None] = mapped_column(String(512))
    start_stages: Mapped[dict[str, float | None]] = mapped_column(JSON, default=dict)
    """Seconds by stage; null: the engine does not show it."""
    rollout: Mapped[int | None] = mapped_column(BigInteger)
    """Whose candidate it was started for; NULL: none's."""
    fencing_token: Mapped[int | None] = mapped_column(BigInteger)
    """Grows with every replica; NULL: started before there were tokens."""
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class ReplicaTransitionRow(ConfigBase):
    """History of a replica's state."""

    __tablename__ = "replica_transitions"
    __table_args__ = (Index("replica_transitions_by_replica", "replica_id", "at_unix_ns"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    replica_id: Mapped[str] = mapped_column(ForeignKey("replicas.replica_id"))
    state: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(String(1024))
    at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class OverrideRow(ConfigBase):
    """One break-glass override, in force or over. It is never changed but for its end."""

    __tablename__ = "overrides"
    __table_args__ = (Index("overrides_by_end", "ended_at_unix_ns", "until_unix_ns"),)

    override_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    """pin_policy, pin_replicas, bypass, force_arm or freeze."""
    deployment: Mapped[str | None] = mapped_column(String(128))
    """None: a freeze of every one, also of those that come later."""
    policy_revision_id: Mapped[int | None] = mapped_column(ForeignKey("revisions.id"))
    replica_ids: Mapped[list[str]] = mapped_column(JSON)
    request_class: Mapped[str | None] = mapped_column(String(128))
    tenant: Mapped[str | None] = mapped_column(String(128))
    arm: Mapped[str | None] = mapped_column(String(16))
    """Of a forced one: stable or candidate."""
    reason: Mapped[str] = mapped_column(String(1024))
    created_by: Mapped[str] = mapped_column(String(128))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    until_unix_ns: Mapped[int] = mapped_column(BigInteger)
    ended_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    ended_by: Mapped[str | None] = mapped_column(String(128))
    """None of one that ended at its time."""
    end_reason: Mapped[str | None] = mapped_column(String(1024))


class SnapshotVersionRow(ConfigBase):
    """Versions of the gateways' snapshot: they survive a restart, so a decision can cite them."""

    __tablename__ = "snapshot_versions"

    version: Mapped[int] = mapped_column(RowId, primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the snapshot without its version."""
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)

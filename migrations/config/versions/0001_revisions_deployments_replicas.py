"""Revisions, deployments, replicas with their histories, and snapshot versions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None

# SQLite only numbers rows by itself for a column declared exactly INTEGER.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "replicas",
        sa.Column("replica_id", sa.String(length=128), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("launcher", sa.String(length=64), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("address", sa.String(length=512), nullable=True),
        sa.Column("metrics_address", sa.String(length=512), nullable=True),
        sa.Column("start_stages", sa.JSON(), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("replica_id"),
    )
    op.create_index("replicas_by_deployment", "replicas", ["deployment", "state"])
    op.create_table(
        "revisions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("kind", "name", "number"),
    )
    op.create_table(
        "snapshot_versions",
        sa.Column("version", ROW_ID, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_table(
        "deployment_changes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("revision_id", ROW_ID, nullable=False),
        sa.Column("model_revision_id", ROW_ID, nullable=False),
        sa.Column("engine_config_revision_id", ROW_ID, nullable=False),
        sa.Column("policy_revision_id", ROW_ID, nullable=False),
        sa.Column("contract_revision_id", ROW_ID, nullable=True),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["contract_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["engine_config_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["model_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["policy_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["revision_id"], ["revisions.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "deployment_changes_by_time", "deployment_changes", ["deployment", "at_unix_ns"]
    )
    op.create_table(
        "deployments",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("revision_id", ROW_ID, nullable=False),
        sa.Column("model_revision_id", ROW_ID, nullable=False),
        sa.Column("engine_config_revision_id", ROW_ID, nullable=False),
        sa.Column("policy_revision_id", ROW_ID, nullable=False),
        sa.Column("contract_revision_id", ROW_ID, nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("observed_generation", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["contract_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["engine_config_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["model_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["policy_revision_id"], ["revisions.id"]),
        sa.ForeignKeyConstraint(["revision_id"], ["revisions.id"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "replica_transitions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("replica_id", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["replica_id"], ["replicas.replica_id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "replica_transitions_by_replica", "replica_transitions", ["replica_id", "at_unix_ns"]
    )


def downgrade() -> None:
    """Drop them with all they hold."""
    op.drop_index("replica_transitions_by_replica", table_name="replica_transitions")
    op.drop_table("replica_transitions")
    op.drop_table("deployments")
    op.drop_index("deployment_changes_by_time", table_name="deployment_changes")
    op.drop_table("deployment_changes")
    op.drop_table("snapshot_versions")
    op.drop_table("revisions")
    op.drop_index("replicas_by_deployment", table_name="replicas")
    op.drop_table("replicas")

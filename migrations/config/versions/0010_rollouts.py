"""Rollouts: what a deployment moves from and to, how far it has come, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision: str | None = "0009"

_LIVING = sa.text("ended_at_unix_ns IS NULL")
_REVISIONS = (
    "stable_model_id",
    "stable_engine_config_id",
    "stable_policy_id",
    "candidate_model_id",
    "candidate_engine_config_id",
    "candidate_policy_id",
)


def upgrade() -> None:
    """Add the tables."""
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "rollouts",
        sa.Column("number", row_id, nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        *(sa.Column(name, row_id, nullable=False) for name in _REVISIONS),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("step_since_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("is_let_through", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_reason", sa.String(length=1024), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_unix_ns", sa.BigInteger(), nullable=True),
        *(sa.ForeignKeyConstraint([name], ["revisions.id"]) for name in _REVISIONS),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("rollouts_by_deployment", "rollouts", ["deployment", "number"])
    op.create_index(
        "rollouts_living",
        "rollouts",
        ["deployment"],
        unique=True,
        sqlite_where=_LIVING,
        postgresql_where=_LIVING,
    )
    op.create_table(
        "rollout_moves",
        sa.Column("id", row_id, nullable=False),
        sa.Column("rollout", row_id, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("comparisons", sa.JSON(), nullable=True),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["rollout"], ["rollouts.number"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("rollout_moves_by_rollout", "rollout_moves", ["rollout", "id"])
    op.add_column("replicas", sa.Column("rollout", sa.BigInteger(), nullable=True))
    op.add_column("overrides", sa.Column("arm", sa.String(length=16), nullable=True))


def downgrade() -> None:
    """Drop them: what is under way is as if it had been aborted. Overrides that are about rollouts
    go with them, since nothing of before can read them."""
    op.execute("DELETE FROM overrides WHERE kind IN ('force_arm', 'freeze')")
    op.drop_column("overrides", "arm")
    op.drop_column("replicas", "rollout")
    op.drop_index("rollout_moves_by_rollout", table_name="rollout_moves")
    op.drop_table("rollout_moves")
    op.drop_index("rollouts_living", table_name="rollouts")
    op.drop_index("rollouts_by_deployment", table_name="rollouts")
    op.drop_table("rollouts")

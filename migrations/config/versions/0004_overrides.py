"""Break-glass overrides: what operators decided over a policy's head, until when, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "overrides",
        sa.Column("override_id", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("policy_revision_id", ROW_ID, nullable=True),
        sa.Column("replica_ids", sa.JSON(), nullable=False),
        sa.Column("request_class", sa.String(length=128), nullable=True),
        sa.Column("tenant", sa.String(length=128), nullable=True),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.String(length=128), nullable=True),
        sa.Column("end_reason", sa.String(length=1024), nullable=True),
        sa.ForeignKeyConstraint(["policy_revision_id"], ["revisions.id"]),
        sa.PrimaryKeyConstraint("override_id"),
    )
    op.create_index("overrides_by_end", "overrides", ["ended_at_unix_ns", "until_unix_ns"])


def downgrade() -> None:
    """Drop it with all it holds."""
    op.drop_index("overrides_by_end", table_name="overrides")
    op.drop_table("overrides")

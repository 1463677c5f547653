"""Silences and maintenance windows: which alerts tell nobody, from when until when, and why."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "silences",
        sa.Column("silence_id", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=True),
        sa.Column("request_class", sa.String(length=128), nullable=True),
        sa.Column("objective", sa.String(length=32), nullable=True),
        sa.Column("severity", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("from_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.String(length=128), nullable=True),
        sa.Column("end_reason", sa.String(length=1024), nullable=True),
        sa.PrimaryKeyConstraint("silence_id"),
    )
    op.create_index("silences_by_end", "silences", ["ended_at_unix_ns", "until_unix_ns"])
    op.create_index("silences_by_time", "silences", ["created_at_unix_ns"])


def downgrade() -> None:
    """Drop it with all it holds."""
    op.drop_index("silences_by_time", table_name="silences")
    op.drop_index("silences_by_end", table_name="silences")
    op.drop_table("silences")

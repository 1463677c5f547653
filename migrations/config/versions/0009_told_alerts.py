"""What people were last told of alerts, so that a control plane that starts tells nothing twice."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision: str | None = "0008"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "told_alerts",
        sa.Column("notifier", sa.String(length=64), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("told_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("alerts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("notifier", "deployment"),
    )


def downgrade() -> None:
    """Drop it: what fires is told once more."""
    op.drop_table("told_alerts")

"""Indexes that hold what charts add up, in their order: six hours are read without a sort."""

from alembic import op

revision = "0007"
down_revision: str | None = "0006"


def upgrade() -> None:
    """Index both tables of counts by time and measure."""
    for unit in ("minute", "hour"):
        op.create_index(
            f"{unit}_counts_series",
            f"{unit}_counts",
            [f"{unit}_unix", "measure", "deployment", "value"],
        )


def downgrade() -> None:
    """Drop them; nothing but time is lost."""
    for unit in ("minute", "hour"):
        op.drop_index(f"{unit}_counts_series", table_name=f"{unit}_counts")

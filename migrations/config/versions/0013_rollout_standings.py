"""How a rollout's arms stood to the contract when a move was decided."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision: str | None = "0012"


def upgrade() -> None:
    """Add the column."""
    op.add_column("rollout_moves", sa.Column("standings", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("rollout_moves", "standings")

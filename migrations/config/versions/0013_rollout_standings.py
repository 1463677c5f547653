"""How a rollout's arms stood to the contract when a move was decided, and what its policy in shadow
had come to."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision: str | None = "0012"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("rollout_moves", sa.Column("standings", sa.JSON(), nullable=True))
    op.add_column("rollout_moves", sa.Column("shadow", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("rollout_moves", "shadow")
    op.drop_column("rollout_moves", "standings")

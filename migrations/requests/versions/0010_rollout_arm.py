"""Which arm of which rollout a request was in, and the engine config that it was answered under.

Requests of before were in none that anybody recorded: NULL.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision: str | None = "0009"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("requests", sa.Column("engine_config_revision", sa.String(160), nullable=True))
    op.add_column("requests", sa.Column("rollout", sa.BigInteger(), nullable=True))
    op.add_column("requests", sa.Column("arm", sa.String(16), nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name in ("arm", "rollout", "engine_config_revision"):
        op.drop_column("requests", name)

"""Fencing tokens: a number for each replica that only grows."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision: str | None = "0011"

_INDEX = "replicas_by_fencing_token"


def upgrade() -> None:
    """Replicas that run already have none."""
    op.add_column("replicas", sa.Column("fencing_token", sa.BigInteger(), nullable=True))
    op.create_index(_INDEX, "replicas", ["fencing_token"], unique=True)


def downgrade() -> None:
    """Drop them."""
    op.drop_index(_INDEX, table_name="replicas")
    with op.batch_alter_table("replicas") as table:
        table.drop_column("fencing_token")

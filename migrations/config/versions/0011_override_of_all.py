"""A freeze of all rollouts: one override that names no deployment."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision: str | None = "0010"

_NAME = sa.String(length=128)


def upgrade() -> None:
    """Let an override name none."""
    with op.batch_alter_table("overrides") as table:
        table.alter_column("deployment", existing_type=_NAME, nullable=True)


def downgrade() -> None:
    """Those that name none go: nothing of before can read them."""
    op.execute("DELETE FROM overrides WHERE deployment IS NULL")
    with op.batch_alter_table("overrides") as table:
        table.alter_column("deployment", existing_type=_NAME, nullable=False)

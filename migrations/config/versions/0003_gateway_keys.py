"""Keys that open one gateway, and an audit that INSERT OR REPLACE cannot rewrite either."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    """Add the column and, on SQLite, the missing guard."""
    op.add_column("access_keys", sa.Column("gateway", sa.String(length=128), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        # A replaced row fires no trigger for its deletion.
        op.execute(
            "CREATE TRIGGER audit_events_no_replace BEFORE INSERT ON audit_events "
            "WHEN EXISTS (SELECT 1 FROM audit_events WHERE id = NEW.id) "
            "BEGIN SELECT RAISE(ABORT, 'audit events are never changed or deleted'); END"
        )


def downgrade() -> None:
    """Take both back."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER audit_events_no_replace")
    op.drop_column("access_keys", "gateway")

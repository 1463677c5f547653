"""An index over who was offered requests in each minute: the names that filters show."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"

_OFFERED = sa.text("measure = 'offered'")


def upgrade() -> None:
    """Add it."""
    op.create_index(
        "minute_counts_offered",
        "minute_counts",
        ["minute_unix", "deployment", "request_class", "tenant"],
        sqlite_where=_OFFERED,
        postgresql_where=_OFFERED,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_index("minute_counts_offered", table_name="minute_counts")

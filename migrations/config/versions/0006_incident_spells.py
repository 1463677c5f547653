"""When each spell of an incident began: with the event that opened or reopened it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"


def upgrade() -> None:
    """Add the column; of what was opened before, the incident itself has it."""
    op.add_column("incident_events", sa.Column("since_unix_ns", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop it with all it holds."""
    op.drop_column("incident_events", "since_unix_ns")

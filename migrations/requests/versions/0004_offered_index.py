"""Indexes for the names that filters show, and for two common filters that share no request."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"

_OFFERED = sa.text("measure = 'offered'")


def upgrade() -> None:
    """Add them."""
    op.create_index(
        "minute_counts_offered",
        "minute_counts",
        ["minute_unix", "deployment", "request_class", "tenant"],
        sqlite_where=_OFFERED,
        postgresql_where=_OFFERED,
    )
    op.create_index(
        "requests_by_deployment_and_class",
        "requests",
        ["deployment", "request_class", "arrived_at_unix_ns"],
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("requests_by_deployment_and_class", table_name="requests")
    op.drop_index("minute_counts_offered", table_name="minute_counts")

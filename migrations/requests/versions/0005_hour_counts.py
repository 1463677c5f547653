"""Counts by the hour, summed from those by the minute: a week of them is read in one go."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"

_SAMPLED = sa.text("measure LIKE 'sampled.%'")


def upgrade() -> None:
    """Create the table and fill it; index the gauges, which have no sums."""
    op.create_table(
        "hour_counts",
        sa.Column("hour_unix", sa.BigInteger(), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("request_class", sa.String(length=128), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("contract_revision", sa.String(length=160), nullable=False),
        sa.Column("measure", sa.String(length=64), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "hour_unix", "deployment", "request_class", "tenant", "contract_revision", "measure"
        ),
    )
    op.execute(
        "INSERT INTO hour_counts (hour_unix, deployment, request_class, tenant,"
        " contract_revision, measure, value)"
        " SELECT minute_unix - minute_unix % 3600, deployment, request_class, tenant,"
        " contract_revision, measure, SUM(value) FROM minute_counts"
        " WHERE measure NOT LIKE 'sampled.%'"
        " GROUP BY minute_unix - minute_unix % 3600, deployment, request_class, tenant,"
        " contract_revision, measure"
    )
    op.create_index(
        "minute_counts_sampled",
        "minute_counts",
        ["deployment", "minute_unix"],
        sqlite_where=_SAMPLED,
        postgresql_where=_SAMPLED,
    )


def downgrade() -> None:
    """Drop them; the counts by the minute have it all."""
    op.drop_index("minute_counts_sampled", table_name="minute_counts")
    op.drop_table("hour_counts")

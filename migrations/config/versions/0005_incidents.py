"""Incidents: what was found wrong with a deployment, since when, and what became of it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "incidents",
        sa.Column("incident_id", sa.String(length=16), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("mechanism", sa.String(length=64), nullable=False),
        sa.Column("confidence", sa.String(length=16), nullable=False),
        sa.Column("opened_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("since_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("last_seen_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("num_reopened", sa.Integer(), nullable=False),
        sa.Column("acknowledged_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("incident_id"),
    )
    op.create_index(
        "incidents_by_deployment", "incidents", ["deployment", "state", "last_seen_at_unix_ns"]
    )
    op.create_index("incidents_by_time", "incidents", ["opened_at_unix_ns"])
    op.create_table(
        "incident_findings",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("incident_id", sa.String(length=16), nullable=False),
        sa.Column("rule_id", sa.String(length=64), nullable=False),
        sa.Column("mechanism", sa.String(length=64), nullable=False),
        sa.Column("confidence", sa.String(length=16), nullable=False),
        sa.Column("first_seen_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("num_seen", sa.BigInteger(), nullable=False),
        sa.Column("finding", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.incident_id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("incident_id", "rule_id"),
    )
    op.create_table(
        "incident_events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("incident_id", sa.String(length=16), nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("what", sa.String(length=1024), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.incident_id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("incident_events_by_incident", "incident_events", ["incident_id", "at_unix_ns"])


def downgrade() -> None:
    """Drop them with all they hold."""
    op.drop_index("incident_events_by_incident", table_name="incident_events")
    op.drop_table("incident_events")
    op.drop_table("incident_findings")
    op.drop_index("incidents_by_time", table_name="incidents")
    op.drop_index("incidents_by_deployment", table_name="incidents")
    op.drop_table("incidents")

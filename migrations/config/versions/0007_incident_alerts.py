"""Alerts that belong to incidents, and when alerting itself was last heard of."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision: str | None = "0006"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "incident_alerts",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("incident_id", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=16), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        sa.Column("grade", sa.String(length=32), nullable=True),
        sa.Column("request_class", sa.String(length=128), nullable=True),
        sa.Column("objective", sa.String(length=32), nullable=True),
        sa.Column("instance", sa.String(length=512), nullable=True),
        sa.Column("summary", sa.String(length=512), nullable=False),
        sa.Column("description", sa.String(length=2048), nullable=False),
        sa.Column("contract_revision", sa.String(length=160), nullable=True),
        sa.Column("runbook_url", sa.String(length=1024), nullable=True),
        sa.Column("dashboard_url", sa.String(length=1024), nullable=True),
        sa.Column("started_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("told_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("num_times", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.incident_id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("incident_id", "fingerprint", "source"),
    )
    op.create_index("incident_alerts_by_fingerprint", "incident_alerts", ["fingerprint", "source"])
    op.create_table(
        "alerting_heard",
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("heard_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("told_by", sa.String(length=512), nullable=True),
        sa.PrimaryKeyConstraint("source"),
    )


def downgrade() -> None:
    """Drop them with all they hold, and incidents of which alerts alone tell: releases of before
    know none without a finding. What alerts did in the course of others stays as a note."""
    told_alone = "SELECT incident_id FROM incidents WHERE mechanism = ''"
    for table in ("incident_alerts", "incident_findings", "incident_events"):
        op.execute(f"DELETE FROM {table} WHERE incident_id IN ({told_alone})")
    op.execute("DELETE FROM incidents WHERE mechanism = ''")
    op.execute("UPDATE incident_events SET kind = 'note' WHERE kind IN ('alerted', 'ended')")
    op.drop_table("alerting_heard")
    op.drop_index("incident_alerts_by_fingerprint", table_name="incident_alerts")
    op.drop_table("incident_alerts")

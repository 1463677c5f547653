"""What clients and engines tell about requests, and the span ids by which they are matched."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"

_SPAN_IDS = ("span_id", "parent_span_id")


def upgrade() -> None:
    """Add the columns and the table."""
    for name in _SPAN_IDS:
        op.add_column("requests", sa.Column(name, sa.String(length=16), nullable=True))
    op.create_table(
        "span_reports",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("span_id", sa.String(length=16), nullable=False),
        sa.Column("sender", sa.String(length=128), nullable=False),
        sa.Column("side", sa.String(length=8), nullable=False),
        sa.Column("named_request_id", sa.String(length=64), nullable=True),
        sa.Column("received_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("gateway_id", sa.String(length=128), nullable=True),
        sa.Column("gateway_sequence", sa.BigInteger(), nullable=True),
        sa.Column("report", sa.LargeBinary(), nullable=False),
        sa.Column("judgement", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("trace_id", "span_id", "sender"),
    )
    op.create_index("span_reports_by_request", "span_reports", ["gateway_id", "gateway_sequence"])
    op.create_index(
        "span_reports_by_wait", "span_reports", ["gateway_id", "sender", "received_at_unix_ns"]
    )
    op.create_index("span_reports_by_name", "span_reports", ["named_request_id"])


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("span_reports")
    with op.batch_alter_table("requests") as requests:
        for name in _SPAN_IDS:
            requests.drop_column(name)

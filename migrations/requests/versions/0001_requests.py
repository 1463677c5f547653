"""Exact counts, compact rows, full records with their reservoirs, and gateways' losses."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "full_records",
        sa.Column("gateway_id", sa.String(length=128), nullable=False),
        sa.Column("gateway_sequence", sa.BigInteger(), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("minute_unix", sa.BigInteger(), nullable=False),
        sa.Column("request_class", sa.String(length=128), nullable=False),
        sa.Column("kept_because", sa.String(length=16), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", "gateway_sequence"),
    )
    op.create_index(
        "full_records_by_reservoir",
        "full_records",
        ["minute_unix", "request_class", "kept_because"],
    )
    op.create_index("ix_full_records_request_id", "full_records", ["request_id"])
    op.create_table(
        "gateway_losses",
        sa.Column("gateway_id", sa.String(length=128), nullable=False),
        sa.Column("num_lost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("gateway_id"),
    )
    op.create_table(
        "minute_counts",
        sa.Column("minute_unix", sa.BigInteger(), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("request_class", sa.String(length=128), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("contract_revision", sa.String(length=160), nullable=False),
        sa.Column("measure", sa.String(length=64), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "minute_unix", "deployment", "request_class", "tenant", "contract_revision", "measure"
        ),
    )
    op.create_table(
        "requests",
        sa.Column("gateway_id", sa.String(length=128), nullable=False),
        sa.Column("gateway_sequence", sa.BigInteger(), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("arrived_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=True),
        sa.Column("request_class", sa.String(length=128), nullable=True),
        sa.Column("deployment", sa.String(length=128), nullable=True),
        sa.Column("model_revision", sa.String(length=160), nullable=True),
        sa.Column("policy_revision", sa.String(length=160), nullable=True),
        sa.Column("contract_revision", sa.String(length=160), nullable=True),
        sa.Column("engine", sa.String(length=64), nullable=True),
        sa.Column("replica_id", sa.String(length=128), nullable=True),
        sa.Column("num_attempts", sa.Integer(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("disposition", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=512), nullable=True),
        sa.Column("delivery", sa.String(length=16), nullable=False),
        sa.Column("num_prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("num_cached_tokens", sa.Integer(), nullable=True),
        sa.Column("num_output_tokens", sa.Integer(), nullable=False),
        sa.Column("in_contract", sa.Boolean(), nullable=True),
        sa.Column("scheduled", sa.Float(), nullable=True),
        sa.Column("first_token", sa.Float(), nullable=True),
        sa.Column("first_write", sa.Float(), nullable=True),
        sa.Column("finished", sa.Float(), nullable=True),
        sa.Column("last_write", sa.Float(), nullable=True),
        sa.Column("released", sa.Float(), nullable=True),
        sa.Column("ttft", sa.Float(), nullable=True),
        sa.Column("tpot", sa.Float(), nullable=True),
        sa.Column("e2e", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("gateway_id", "gateway_sequence"),
    )
    op.create_index("requests_by_id", "requests", ["request_id"])
    op.create_index("requests_by_time", "requests", ["arrived_at_unix_ns"])
    op.create_index("requests_by_trace", "requests", ["trace_id"])
    op.create_table(
        "reservoirs",
        sa.Column("minute_unix", sa.BigInteger(), nullable=False),
        sa.Column("request_class", sa.String(length=128), nullable=False),
        sa.Column("kept_because", sa.String(length=16), nullable=False),
        sa.Column("num_offered", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("minute_unix", "request_class", "kept_because"),
    )


def downgrade() -> None:
    """Drop them with all they hold."""
    op.drop_table("reservoirs")
    op.drop_index("requests_by_trace", table_name="requests")
    op.drop_index("requests_by_time", table_name="requests")
    op.drop_index("requests_by_id", table_name="requests")
    op.drop_table("requests")
    op.drop_table("minute_counts")
    op.drop_table("gateway_losses")
    op.drop_index("ix_full_records_request_id", table_name="full_records")
    op.drop_index("full_records_by_reservoir", table_name="full_records")
    op.drop_table("full_records")

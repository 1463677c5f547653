"""Indexes for every filter of the request list, ids that compare by byte, and what was removed."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"

_INDEXES = {
    "requests_by_tenant": [
        "tenant",
        "arrived_at_unix_ns",
        "deployment",
        "request_class",
        "disposition",
        "in_contract",
    ],
    "requests_by_deployment": ["deployment", "arrived_at_unix_ns", "ttft"],
    "requests_by_class": ["request_class", "arrived_at_unix_ns"],
    "requests_by_disposition": ["disposition", "arrived_at_unix_ns"],
    "requests_by_contract": ["in_contract", "arrived_at_unix_ns"],
}
_IDS = {"request_id": 64, "trace_id": 32}


def upgrade() -> None:
    """Add the indexes and the table of what was removed."""
    _collate_ids("C")
    for name, columns in _INDEXES.items():
        op.create_index(name, "requests", columns)
    op.create_table(
        "removed_data",
        sa.Column("store", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=16), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("last_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("store", "reason"),
    )


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("removed_data")
    for name in reversed(_INDEXES):
        op.drop_index(name, table_name="requests")
    _collate_ids("default")


def _collate_ids(collation: str) -> None:
    """The beginning of an id is found as a range, and a language's order knows no such range."""
    if op.get_bind().dialect.name != "postgresql":
        return  # SQLite compares by byte already
    for column, length in _IDS.items():
        op.execute(
            f"ALTER TABLE requests ALTER COLUMN {column} TYPE varchar({length}) "
            f'COLLATE "{collation}"'
        )

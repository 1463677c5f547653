"""What requests took of engines: seconds of replicas, and blocks of KV cache over time.

Requests of before have none of it: NULL, which is unknown and not zero.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"

_COLUMNS = {
    "engine_seconds": sa.Float,
    "is_engine_inferred": sa.Boolean,
    "kv_block_seconds": sa.Float,
}


def upgrade() -> None:
    """Add the columns. The counts by the minute have a row for each measure, and need no change."""
    for name, kind in _COLUMNS.items():
        op.add_column("requests", sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    """Drop them; counts of these measures stay, and nobody reads them."""
    for name in reversed(_COLUMNS):
        op.drop_column("requests", name)

"""When the answer of a reasoning model began, and the longest gap: what a contract may promise.

Requests of before have neither: NULL, and who looks for those that missed such an objective finds
none of them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision: str | None = "0008"

_COLUMNS = ("first_answer", "max_gap")


def upgrade() -> None:
    """Add the columns."""
    for name in _COLUMNS:
        op.add_column("requests", sa.Column(name, sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name in reversed(_COLUMNS):
        op.drop_column("requests", name)

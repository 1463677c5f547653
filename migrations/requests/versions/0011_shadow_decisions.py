"""What a policy that only looked on would have decided about a request.

Requests of before were looked at by none: NULL.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision: str | None = "0010"

_COLUMNS = (
    ("shadow_enforced", sa.String(16)),
    ("shadow_outcome", sa.String(16)),
    ("shadow_class", sa.String(128)),
    ("shadow_kind", sa.String(64)),
    ("shadow_differs", sa.Boolean()),
)


def upgrade() -> None:
    """Add the columns."""
    for name, kind in _COLUMNS:
        op.add_column("requests", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name, _ in reversed(_COLUMNS):
        op.drop_column("requests", name)

"""Whether the output of a request was counted: of one that died with its gateway nobody knows.

A flag beside the number, because on SQLite a column only becomes nullable by writing the whole
table anew, and because the code before this one reads the number and could not read none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"


def upgrade() -> None:
    """Add the flag, and set it where a gateway died: until now those said 0."""
    op.add_column("requests", sa.Column("is_output_unknown", sa.Boolean(), nullable=True))
    requests = sa.table(
        "requests", sa.column("disposition", sa.String), sa.column("is_output_unknown", sa.Boolean)
    )
    lost = requests.c.disposition == "lost"
    op.execute(requests.update().where(lost).values(is_output_unknown=sa.true()))


def downgrade() -> None:
    """Drop it; lost requests say 0 again."""
    op.drop_column("requests", "is_output_unknown")

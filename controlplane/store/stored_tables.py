"""The tables of a database as they stand there, which may be an older schema than the code's.

A backup and its restoring work on these, so that a database can be saved before an upgrade, and
a backup of an older version restored into a newer one.
"""

from typing import Any

from sqlalchemy import JSON, Connection, MetaData, Table, event, func, inspect, select, text

from controlplane.store.connection import DatabaseKind
from controlplane.store.schema import metadata_of

_PASSING = frozenset({"login_sessions"})
"""What is not worth keeping: whoever was logged in logs in again."""


def read_tables(connection: Connection, kind: DatabaseKind) -> list[Table]:
    """Every table that a backup holds, what is referred to before what refers to it."""
    known = set(metadata_of(kind).tables)
    present = known & set(inspect(connection).get_table_names())
    metadata = MetaData()
    event.listen(metadata, "column_reflect", _keep_null)
    if present:
        metadata.reflect(connection, only=sorted(present))
    return [table for table in metadata.sorted_tables if table.name not in _PASSING]


def find_filled_table(connection: Connection, kind: DatabaseKind) -> str | None:
    """The first table that holds a row, None when all are empty."""
    for table in read_tables(connection, kind):
        if connection.execute(select(table).limit(1)).first() is not None:
            return table.name
    return None


def continue_numbering(connection: Connection, table: Table) -> None:
    """After rows came with their numbers: let PostgreSQL number new ones behind them."""
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        named = connection.execute(
            select(func.pg_get_serial_sequence(table.name, column.name))
        ).scalar()
        last = connection.execute(select(func.max(column))).scalar() if named else None
        if last is not None:
            connection.execute(
                text("SELECT setval(CAST(:name AS regclass), :last)"),
                {"name": named, "last": last},
            )


def _keep_null(_inspector: Any, _table: Table, column: dict[str, Any]) -> None:
    # JSON's null and a column without a value are two things; ours are the latter.
    if isinstance(column["type"], JSON):
        column["type"] = JSON(none_as_null=True)

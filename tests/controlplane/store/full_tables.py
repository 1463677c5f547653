"""Rows for every table there is, made from the schema: every column filled, then as few as may be.

Whoever adds a table or a column has it filled too, without a word here.
"""

from collections.abc import Mapping
from contextlib import closing
from itertools import count
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    func,
    insert,
    select,
)
from sqlalchemy.types import JSON

from controlplane.specs.kind import digest_of
from controlplane.store.connection import DatabaseKind, create_database_engine
from controlplane.store.schema import metadata_of
from tests.databases import Databases

_REVISIONS = "revisions"


def fill_every_table(databases: Databases) -> None:
    """Two rows a table: one with every column, one whose nullable columns are all NULL."""
    for kind in DatabaseKind:
        databases.open(kind).close()
        engine = create_database_engine(databases.url(kind))
        with closing(engine.connect()) as connection, connection.begin():
            numbers = count(1)
            for table in metadata_of(kind).sorted_tables:
                for is_full in (True, False):
                    row = _row(connection, table, is_full, next(numbers))
                    connection.execute(insert(table), [row])
        engine.dispose()


def filled_columns(databases: Databases) -> dict[str, tuple[int, int]]:
    """How many rows of each nullable column hold a value, and how many hold none."""
    found = {}
    for kind in DatabaseKind:
        engine = create_database_engine(databases.url(kind))
        with closing(engine.connect()) as connection:
            for table in metadata_of(kind).sorted_tables:
                for column in table.columns:
                    if column.nullable:
                        counts = select(func.count(column), func.count()).select_from(table)
                        filled, total = connection.execute(counts).one()
                        found[f"{table.name}.{column.name}"] = (filled, total - filled)
        engine.dispose()
    return found


def _row(connection: Connection, table: Table, is_full: bool, number: int) -> Mapping[str, Any]:
    row = {
        column.name: _value(connection, column, number) if is_full or not column.nullable else None
        for column in table.columns
    }
    if table.name == _REVISIONS:
        row["digest"] = digest_of(row["document"])
    return row


def _value(connection: Connection, column: Column[Any], number: int) -> Any:
    for key in column.foreign_keys:
        return connection.execute(select(key.column).limit(1)).scalar_one()
    match column.type:
        case Boolean():
            return number % 2 == 1
        case Float():
            return number + 0.1
        case Integer():
            return number
        case LargeBinary():
            return bytes([0, 255, number % 256])
        case JSON():
            return {"größer": [number, None, {"🦙": 0.1}]}
        case String():
            return f"é{number}"
    raise AssertionError(f"{column} has a type that nobody fills: {column.type!r}")

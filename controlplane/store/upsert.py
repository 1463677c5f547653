"""Inserting rows of which some may exist already: SQLite and PostgreSQL say it alike.

PostgreSQL gets every column as one array: the statement stays short however many rows there are,
and reading a long one would take the driver longer than the server needs to store it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ARRAY, Column, String, Table, Text, bindparam, case, func, select
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

Row = Mapping[str, Any]
Item = TypeVar("Item")
_VALUES_PER_STATEMENT = 1000


def upsert(session: Session, table: Any, rows: Sequence[Row], merge: Mapping[str, str]) -> None:
    """Insert rows, or merge the named columns into those that exist: `add`, or take the `larger`.

    All rows name the same columns. Give them in the order of their keys: two transactions that
    lock the same rows in another order would wait for each other.
    """
    if not rows:
        return
    statement = _insert(session, table, rows)
    merged = {}
    for name, how in merge.items():
        old, new = statement.table.c[name], statement.excluded[name]
        merged[name] = old + new if how == "add" else case((new > old, new), else_=old)
    on_conflict = statement.on_conflict_do_update(index_elements=_key(table), set_=merged)
    for values in _values(session, rows):
        session.execute(on_conflict, values)


def insert_missing(session: Session, table: Any, rows: Sequence[Row]) -> None:
    """Insert the rows whose key does not exist yet, in the order of their keys."""
    if not rows:
        return
    statement = _insert(session, table, rows).on_conflict_do_nothing()
    for values in _values(session, rows):
        session.execute(statement, values)


def insert_new(session: Session, table: Any, rows: Sequence[Row]) -> set[tuple[Any, ...]]:
    """As `insert_missing`. Returns the primary keys of those that did not exist."""
    if not rows:
        return set()
    statement = _insert(session, table, rows).on_conflict_do_nothing()
    returning = statement.returning(*_key(table))
    inserted: set[tuple[Any, ...]] = set()
    for values in _values(session, rows):
        inserted.update(tuple(key) for key in session.execute(returning, values))
    return inserted


def chunks(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """`items` cut into pieces of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _key(table: Any) -> list[Column[Any]]:
    assert isinstance(table, Table)
    return [column for column in table.columns if column.primary_key]


def _insert(session: Session, table: Any, rows: Sequence[Row]) -> PostgresqlInsert | SqliteInsert:
    # Tables and not mapped classes: the ORM would look at every row for what to load back.
    assert isinstance(table, Table)
    if not _is_postgresql(session):
        return sqlite_insert(table)
    names = list(rows[0])
    columns = [
        func.unnest(bindparam(name, type_=ARRAY(_element_type(table.c[name].type))))
        for name in names
    ]
    return postgresql_insert(table).from_select(names, select(*columns))


def _values(session: Session, rows: Sequence[Row]) -> Iterator[Any]:
    """Parameters of each execution."""
    for chunk in chunks(rows, _VALUES_PER_STATEMENT):
        if _is_postgresql(session):
            yield {name: [row[name] for row in chunk] for name in chunk[0]}
        else:
            yield list(chunk)


def _element_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    # A cast to VARCHAR(n) would cut off in silence what an insert refuses.
    return Text() if isinstance(type_, String) else type_


def _is_postgresql(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"

"""Inserting rows of which some may exist already: SQLite and PostgreSQL say it alike."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Column, Table, case
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import Session

Row = Mapping[str, Any]
Item = TypeVar("Item")
_VALUES_PER_STATEMENT = 500


def upsert(session: Session, table: Any, rows: Sequence[Row], merge: Mapping[str, str]) -> None:
    """Insert rows, or merge the named columns into those that exist: `add`, or take the `larger`.

    Give rows in the order of their keys: two transactions that lock the same rows in another
    order would wait for each other.
    """
    statement = _insert(session, table)
    merged = {}
    for name, how in merge.items():
        old, new = statement.table.c[name], statement.excluded[name]
        merged[name] = old + new if how == "add" else case((new > old, new), else_=old)
    on_conflict = statement.on_conflict_do_update(index_elements=_key(table), set_=merged)
    _execute(session, on_conflict, rows)


def insert_missing(session: Session, table: Any, rows: Sequence[Row]) -> None:
    """Insert the rows whose key does not exist yet, in the order of their keys."""
    _execute(session, _insert(session, table).on_conflict_do_nothing(), rows)


def insert_new(session: Session, table: Any, rows: Sequence[Row]) -> set[tuple[Any, ...]]:
    """As `insert_missing`. Returns the primary keys of those that did not exist."""
    statement = _insert(session, table).on_conflict_do_nothing()
    returning = statement.returning(*_key(table))
    inserted: set[tuple[Any, ...]] = set()
    for chunk in chunks(rows, _VALUES_PER_STATEMENT):
        inserted.update(tuple(key) for key in session.execute(returning, list(chunk)))
    return inserted


def chunks(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """`items` cut into pieces of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _key(table: Any) -> list[Column[Any]]:
    assert isinstance(table, Table)
    return [column for column in table.columns if column.primary_key]


def _insert(session: Session, table: Any) -> PostgresqlInsert | SqliteInsert:
    # Tables and not mapped classes: the ORM would look at every row for what to load back.
    assert isinstance(table, Table)
    is_postgresql = session.get_bind().dialect.name == "postgresql"
    return postgresql_insert(table) if is_postgresql else sqlite_insert(table)


def _execute(session: Session, statement: Any, rows: Sequence[Row]) -> None:
    for chunk in chunks(rows, _VALUES_PER_STATEMENT):
        session.execute(statement, list(chunk))

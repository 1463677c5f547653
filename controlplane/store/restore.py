"""Bringing back what a backup holds, into empty databases of either kind of server.

The file is read once whole before anything is touched. The databases get the schema that the
backup was made with, all rows in one transaction each, every digest is computed again, and
only then both are committed and brought to the newest schema.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, LargeBinary, Table
from sqlalchemy.exc import DatabaseError, StatementError

from controlplane.store.archive import Archive, ArchiveError
from controlplane.store.backup import Progress
from controlplane.store.connection import (
    DatabaseKind,
    create_database_engine,
    lock_for_writing,
)
from controlplane.store.database_url import place_of
from controlplane.store.integrity import ConfigDigest, read_config_digest
from controlplane.store.schema import (
    SchemaError,
    SchemaState,
    inspect_schema,
    known_migrations,
)
from controlplane.store.stored_tables import (
    continue_numbering,
    find_filled_table,
    read_tables,
)
from controlplane.store.upgrade import create_folder, migrate, upgrade_database


@dataclass(slots=True)
class _Count:
    """How far the restoring is, over all databases."""

    total: int
    progress: Progress
    done: int = 0

    def add(self, what: str, number: int) -> None:
        self.done += number
        self.progress(what, self.done, self.total)


def restore_backup(
    archive: Archive, urls: Mapping[DatabaseKind, str], progress: Progress
) -> ConfigDigest | None:
    """Fill the databases in `urls` with what `archive` holds of them.

    Returns the digest of the restored config, None when config was not asked for. Raises
    ArchiveError and SchemaError, and then no row was stored.
    """
    for kind, url in urls.items():
        _check_target(archive, kind, url)
    for kind, url in urls.items():
        _lay_out(archive, kind, url)
    with ExitStack() as stack:
        connections = {kind: stack.enter_context(_loading(url, kind)) for kind, url in urls.items()}
        count = _Count(archive.num_rows(urls), progress)
        for kind, connection in connections.items():
            _load(archive, kind, connection, count)
        digest = None
        if DatabaseKind.CONFIG in connections:
            digest = _checked_digest(archive, connections[DatabaseKind.CONFIG])
    for kind, url in urls.items():
        upgrade_database(url, kind)
    return digest


def _check_target(archive: Archive, kind: DatabaseKind, url: str) -> None:
    archived = archive.header.databases.get(kind)
    if archived is None:
        raise ArchiveError(f"{archive.path} holds no {kind} data")
    scripts = known_migrations(kind)
    if archived.schema not in {script.revision for script in scripts.walk_revisions()}:
        raise ArchiveError(
            f"{archive.path} has {kind} schema {archived.schema}, which this Pilothouse does not "
            f"know: version {archive.header.version} wrote it. Restore it with that version"
        )
    report = inspect_schema(url, kind)
    if report.state in (SchemaState.FOREIGN, SchemaState.UNKNOWN):
        raise SchemaError(report)
    if report.state is not SchemaState.ABSENT:
        _require_empty(kind, url)


def _require_empty(kind: DatabaseKind, url: str) -> None:
    with _loading(url, kind) as connection:
        filled = find_filled_table(connection, kind)
    if filled is not None:
        raise ArchiveError(
            f"the {kind} database {place_of(url)} is not empty (there are rows in {filled}): a "
            f"backup is restored into an empty one. Move this one away, or name another"
        )


def _lay_out(archive: Archive, kind: DatabaseKind, url: str) -> None:
    """Give an empty database the schema that the backup was made with."""
    create_folder(url)
    if inspect_schema(url, kind).state is not SchemaState.ABSENT:
        migrate(url, kind, "base")
    migrate(url, kind, archive.header.databases[kind].schema)


def _load(archive: Archive, kind: DatabaseKind, connection: Connection, count: _Count) -> None:
    tables = {table.name: table for table in read_tables(connection, kind)}
    columns = archive.header.databases[kind].columns
    num_rows = dict.fromkeys(columns, 0)
    for name, rows in archive.rows(kind):
        table = tables.get(name)
        if table is None or not set(columns[name]) <= set(table.columns.keys()):
            raise ArchiveError(f"{archive.path} is damaged: its schema has no such table {name}")
        _insert(connection, table, columns[name], rows)
        num_rows[name] += len(rows)
        count.add(f"{kind}/{name}", len(rows))
    for name, number in num_rows.items():
        if number != archive.manifest.num_rows.get(f"{kind}/{name}"):
            raise ArchiveError(f"{archive.path} is damaged: {kind}/{name} lacks rows")
        continue_numbering(connection, tables[name])


def _insert(connection: Connection, table: Table, names: list[str], rows: list[list[Any]]) -> None:
    for name in names:
        if isinstance(table.columns[name].type, LargeBinary):
            place = names.index(name)
            for row in rows:
                if row[place] is not None:
                    row[place] = base64.b64decode(row[place])
    values = [dict(zip(names, row, strict=True)) for row in rows]
    try:
        connection.execute(table.insert(), values)
    except (DatabaseError, StatementError, ValueError) as error:
        why = error.orig if isinstance(error, DatabaseError) else error
        raise ArchiveError(f"rows of {table.name} cannot be stored: {why}") from error


def _checked_digest(archive: Archive, connection: Connection) -> ConfigDigest:
    restored = read_config_digest(connection)
    if restored.damaged or restored.revisions != archive.manifest.revisions:
        differing = {
            label
            for label, _ in {*restored.revisions.items()} ^ {*archive.manifest.revisions.items()}
        }
        first = min({*restored.damaged, *differing})
        raise ArchiveError(
            f"{archive.path} is damaged: after restoring, {first} is not what its manifest says. "
            f"Nothing was restored; use another backup"
        )
    return restored


@contextmanager
def _loading(url: str, kind: DatabaseKind) -> Iterator[Connection]:
    """One transaction, committed when the block ends."""
    engine = create_database_engine(url)
    try:
        with engine.begin() as connection:
            lock_for_writing(connection, kind)
            yield connection
    finally:
        engine.dispose()

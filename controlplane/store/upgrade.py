"""Bringing a database to the schema that this code knows: whole, or not at all.

On SQLite an upgrade is tried on a copy first. The migration's own transaction would roll
back as well; the copy also shows what no transaction can undo, such as a migration that
ends in a schema the code does not know.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError

from controlplane.store.connection import (
    DatabaseKind,
    create_database_engine,
    lock_for_writing,
    sqlite_path,
    sqlite_url,
)
from controlplane.store.schema import (
    SchemaError,
    SchemaReport,
    SchemaState,
    alembic_config,
    found_version,
    inspect_connection,
    inspect_schema,
    known_migrations,
)


class UpgradeError(Exception):
    """An upgrade cannot be done; the database is unchanged."""


def upgrade_database(url: str, kind: DatabaseKind) -> SchemaReport:
    """Create a database, or bring an older one to the schema that this code knows.

    It is upgraded whole or not at all: in one transaction, and on SQLite on a copy first. What a
    migration makes is compared with the code's tables before it is kept.

    Returns what was there before. Raises SchemaError for a schema that is not older but unknown
    or not ours, UnreachableError when the server does not answer, UpgradeError when the upgrade
    fails.
    """
    path = sqlite_path(url)
    create_folder(url)
    before = _upgradable(url, kind)
    if before.state is SchemaState.OLDER and path is not None:
        with _copy_of(path) as copy:
            _upgrade(sqlite_url(copy), kind)
    _upgrade(url, kind)
    return before


def try_upgrade(url: str, kind: DatabaseKind) -> SchemaReport:
    """As `upgrade_database`, on a copy: nothing is changed. PostgreSQL rolls it back instead."""
    path = sqlite_path(url)
    before = _upgradable(url, kind)
    if before.state is SchemaState.OLDER and path is not None:
        with _copy_of(path) as copy:
            _upgrade(sqlite_url(copy), kind)
    elif path is None and before.state is not SchemaState.CURRENT:
        _upgrade(url, kind, is_kept=False)
    return before


def _upgradable(url: str, kind: DatabaseKind) -> SchemaReport:
    report = inspect_schema(url, kind)
    if report.state in (SchemaState.UNKNOWN, SchemaState.FOREIGN):
        raise SchemaError(report)
    return report


def create_folder(url: str) -> None:
    """Make room for an SQLite file."""
    path = sqlite_path(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)


def migrate(url: str, kind: DatabaseKind, revision: str, *, is_kept: bool = True) -> None:
    """Run migrations up to `revision`, or down to it when it lies behind.

    With `is_kept` false it is all rolled back at the end. Raises UpgradeError, and
    sqlalchemy.exc.DatabaseError as it comes.
    """
    config = alembic_config(kind)
    # Rebuilding a table drops it for a moment, and enforced keys would not let it go.
    engine = create_database_engine(url, enforces_foreign_keys=False)
    try:
        with engine.begin() as connection:
            # Two that create the same database at once: the second finds it done.
            lock_for_writing(connection, kind)
            config.attributes["connection"] = connection
            if revision == "head" or not _is_behind(connection, kind, revision):
                command.upgrade(config, revision)
            else:
                command.downgrade(config, revision)
            _check_foreign_keys(connection)
            if revision == "head":
                _check_schema(connection, url, kind)
            if not is_kept:
                connection.rollback()
    finally:
        engine.dispose()


def _upgrade(url: str, kind: DatabaseKind, *, is_kept: bool = True) -> None:
    try:
        migrate(url, kind, "head", is_kept=is_kept)
    except DatabaseError as error:
        raise UpgradeError(f"the {kind} database cannot be upgraded: {error.orig}") from error


def _check_schema(connection: Connection, url: str, kind: DatabaseKind) -> None:
    """Raises SchemaError, and so rolls back, when the code does not know what was made."""
    after = inspect_connection(connection, url, kind)
    if after.state is not SchemaState.CURRENT:
        raise SchemaError(after)


def _is_behind(connection: Connection, kind: DatabaseKind, revision: str) -> bool:
    found = found_version(connection, kind)
    if revision == "base" or found is None:
        return revision == "base"
    behind = known_migrations(kind).iterate_revisions(found, "base")
    return revision in {script.revision for script in behind} - {found}


def _check_foreign_keys(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        table, row, parent, _ = broken[0]
        raise UpgradeError(
            f"after the migration {len(broken)} rows would refer to rows that do not exist, "
            f"the first being row {row} of {table}, to {parent}"
        )


def _require_room(path: Path) -> None:
    # The copy, and what the migration rewrites of it.
    needed = 2 * path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise UpgradeError(
            f"an upgrade of {path} needs {needed >> 20} MiB beside it to be tried on a copy, and "
            f"{free >> 20} MiB are free: make room"
        )


@contextmanager
def _copy_of(path: Path) -> Iterator[Path]:
    """A consistent copy of the SQLite database at `path`, for the length of the block.

    It lies beside the original, where there must be room for it anyway. Raises UpgradeError
    for a database that is damaged.
    """
    _require_room(path)
    with tempfile.TemporaryDirectory(prefix="upgrade-", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            [(verdict,), *_] = target.execute("PRAGMA integrity_check").fetchall()
        if verdict != "ok":
            raise UpgradeError(f"{path} is damaged, restore a backup: {verdict}")
        yield copy

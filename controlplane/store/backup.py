"""Saving both databases into one file, while the control plane runs.

Each database is read from one view that stays as it was when the reading began: on SQLite a
reader's snapshot, on PostgreSQL a repeatable read. Nobody waits for it.
"""

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.exc import DatabaseError

from controlplane.store.archive import (
    FORMAT,
    ROWS_PER_MEMBER,
    ArchivedDatabase,
    ArchiveError,
    ArchiveWriter,
    Header,
    Manifest,
    writing_archive,
)
from controlplane.store.connection import (
    DatabaseKind,
    create_database_engine,
    reading_options,
)
from controlplane.store.integrity import read_config_digest
from controlplane.store.schema import SchemaError, SchemaState, inspect_schema
from controlplane.store.stored_tables import read_tables
from dataplane.clock import WallClock, wall_clock

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many rows of it are done, and how many there are."""


def write_backup(
    path: Path,
    urls: Mapping[DatabaseKind, str],
    progress: Progress,
    clock: WallClock = wall_clock,
) -> Manifest:
    """Save the databases in `urls` to `path`, which must not exist.

    Raises SchemaError for one that is absent, unknown or not ours, ArchiveError for config
    that is damaged and for a file that cannot be written; then there is no file.
    """
    if path.exists():
        raise ArchiveError(f"{path} exists already: name another file, or move it away")
    schemas = {kind: _known_schema(url, kind) for kind, url in urls.items()}
    try:
        with ExitStack() as stack:
            views = {kind: stack.enter_context(_view(url)) for kind, url in urls.items()}
            return _write(path, views, schemas, progress, clock())
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error.strerror or error}") from error
    except DatabaseError as error:
        raise ArchiveError(f"the databases cannot be read: {error.orig}") from error


def _write(
    path: Path,
    views: Mapping[DatabaseKind, Connection],
    schemas: Mapping[DatabaseKind, str],
    progress: Progress,
    now_unix_ns: int,
) -> Manifest:
    tables = {kind: read_tables(view, kind) for kind, view in views.items()}
    header = Header(
        format=FORMAT,
        version=importlib.metadata.version("pilothouse"),
        created_at_unix_ns=now_unix_ns,
        databases={
            kind: ArchivedDatabase(
                schema=schemas[kind],
                columns={table.name: [column.name for column in table.columns] for table in each},
            )
            for kind, each in tables.items()
        },
    )
    with writing_archive(path, now_unix_ns) as archive:
        archive.write_header(header)
        revisions: dict[str, str] = {}
        for kind, view in views.items():
            if kind is DatabaseKind.CONFIG:
                revisions = _read_revisions(view)
            for table in tables[kind]:
                _write_table(archive, kind, view, table, progress)
        return archive.write_manifest(revisions)


def _read_revisions(view: Connection) -> dict[str, str]:
    config = read_config_digest(view)
    if config.damaged:
        raise ArchiveError(
            f"the document of {config.damaged[0]} is not the one that was stored: see "
            f"`pilothouse db check --deep`, and restore an earlier backup"
        )
    return config.revisions


def _write_table(
    archive: ArchiveWriter, kind: DatabaseKind, view: Connection, table: Table, progress: Progress
) -> None:
    total = view.execute(select(func.count()).select_from(table)).scalar_one()
    done = 0
    query = select(table)
    if kind is DatabaseKind.CONFIG:
        query = query.order_by(*table.primary_key.columns)
    with view.execution_options(yield_per=ROWS_PER_MEMBER).execute(query) as rows:
        for part in rows.partitions(ROWS_PER_MEMBER):
            archive.write_rows(kind, table.name, [tuple(row) for row in part])
            done += len(part)
            progress(f"{kind}/{table.name}", done, total)


def _known_schema(url: str, kind: DatabaseKind) -> str:
    report = inspect_schema(url, kind)
    if report.found is None or report.state not in (SchemaState.CURRENT, SchemaState.OLDER):
        raise SchemaError(report)
    return report.found


@contextmanager
def _view(url: str) -> Iterator[Connection]:
    """A connection whose transaction goes on seeing what it saw first."""
    engine = create_database_engine(url)
    try:
        with engine.execution_options(**reading_options(engine)).connect() as connection:
            yield connection
    finally:
        engine.dispose()

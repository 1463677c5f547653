"""Schemas and their versions: what a database holds, against what this code knows.

Config and requests have independent histories. The control plane opens a database only when
its schema is exactly the one this code knows; it never changes an existing one by itself.
"""

import shlex
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, inspect, text
from sqlalchemy.exc import DatabaseError, OperationalError

from controlplane.bundled import Bundled, locate
from controlplane.store import (
    access_tables,
    alert_tables,
    incident_tables,
    rollout_tables,
    silence_tables,
    told_alert_tables,
)
from controlplane.store.connection import DatabaseKind, create_bare_engine, words_of
from controlplane.store.database_url import masked, place_of, sqlite_path
from controlplane.store.request_tables import RequestBase
from controlplane.store.tables import ConfigBase

_MIGRATIONS = {
    DatabaseKind.CONFIG: Bundled.CONFIG_MIGRATIONS,
    DatabaseKind.REQUESTS: Bundled.REQUEST_MIGRATIONS,
}
_MAPPED = (
    access_tables,
    alert_tables,
    incident_tables,
    rollout_tables,
    silence_tables,
    told_alert_tables,
)
"""Config tables beside `tables`: importing their modules is what puts them into the metadata."""
_METADATA: dict[DatabaseKind, MetaData] = {
    DatabaseKind.CONFIG: ConfigBase.metadata,
    DatabaseKind.REQUESTS: RequestBase.metadata,
}
_OLDEST_POSTGRESQL = 15


class SchemaState(StrEnum):
    """How a database's schema stands to this code."""

    ABSENT = "absent"
    """No file, or nothing in it."""
    CURRENT = "current"
    OLDER = "older"
    UNKNOWN = "unknown"
    """A version that this code has never heard of: a newer Pilothouse wrote it."""
    FOREIGN = "foreign"
    """Not a database of this kind, or one whose tables were changed by somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """One look at a database."""

    url: str
    kind: DatabaseKind
    state: SchemaState
    found: str | None
    """Version in the database."""
    expected: str
    """Version that this code knows."""
    detail: str | None = None
    """FOREIGN: why."""


class SchemaError(Exception):
    """A database must not be used as it is. The message says what to run."""

    def __init__(self, report: SchemaReport) -> None:
        super().__init__(describe_schema(report))
        self.report = report


class UnreachableError(Exception):
    """A database server did not let us in. The message shows no password."""

    def __init__(self, url: str, kind: DatabaseKind, why: str) -> None:
        super().__init__(
            f"the {kind} database {masked(url)} cannot be reached: {why}. See that the server "
            f"runs and takes connections from here, and that URL, user and password are right"
        )
        self.kind = kind


def describe_schema(report: SchemaReport) -> str:
    """What was found and, unless all is well, what to run."""
    remedy = _remedy(report)
    return f"{_describe(report)}. {remedy}" if remedy else _describe(report)


def inspect_schema(url: str, kind: DatabaseKind) -> SchemaReport:
    """Look at a database without changing it; an absent file is not created."""
    path = sqlite_path(url)
    if path is not None and not path.exists():
        return _report(url, kind, SchemaState.ABSENT)
    engine = create_bare_engine(url)
    try:
        with connect(engine, url, kind) as connection:
            return inspect_connection(connection, url, kind)
    except (DatabaseError, sqlite3.DatabaseError) as error:
        if path is None or "not a database" not in str(error):
            raise
        return _report(url, kind, SchemaState.FOREIGN, detail="it is no SQLite database")
    finally:
        engine.dispose()


def connect(engine: Engine, url: str, kind: DatabaseKind) -> Connection:
    """A connection to the database at `url`. Raises UnreachableError when its server gives none."""
    try:
        return engine.connect()
    except OperationalError as error:
        if sqlite_path(url) is not None:
            raise
        raise UnreachableError(url, kind, words_of(error)) from error


@cache
def known_migrations(kind: DatabaseKind) -> ScriptDirectory:
    """Those that this code comes with. Read once: each look would compile every one of them."""
    return ScriptDirectory.from_config(alembic_config(kind))


def newest_version(kind: DatabaseKind) -> str:
    """The version that this code knows and needs."""
    head = known_migrations(kind).get_current_head()
    if head is None:
        raise FileNotFoundError(f"no migrations in {locate(_MIGRATIONS[kind])}; install again")
    return head


def version_table(kind: DatabaseKind) -> str:
    """Where a database keeps its version. Both kinds can share one PostgreSQL database."""
    return f"{kind}_schema_version"


def metadata_of(kind: DatabaseKind) -> MetaData:
    """The tables of a database as this code knows them."""
    return _METADATA[kind]


def inspect_connection(connection: Connection, url: str, kind: DatabaseKind) -> SchemaReport:
    """What the database at the other end of `connection` holds, as its transaction sees it."""
    unfit = _find_unfit_server(connection)
    if unfit is not None:
        return _report(url, kind, SchemaState.FOREIGN, detail=unfit)
    tables = set(inspect(connection).get_table_names())
    if version_table(kind) not in tables:
        strangers = tables if sqlite_path(url) else tables & set(metadata_of(kind).tables)
        if not strangers:
            return _report(url, kind, SchemaState.ABSENT)
        detail = f"it holds tables but no {version_table(kind)}: {', '.join(sorted(strangers))}"
        return _report(url, kind, SchemaState.FOREIGN, detail=detail)
    found = found_version(connection, kind)
    scripts = known_migrations(kind)
    if found == scripts.get_current_head():
        difference = _difference(connection, kind)
        state = SchemaState.FOREIGN if difference else SchemaState.CURRENT
        return _report(url, kind, state, found, difference)
    known = {script.revision for script in scripts.walk_revisions()}
    state = SchemaState.OLDER if found is None or found in known else SchemaState.UNKNOWN
    return _report(url, kind, state, found)


def _find_unfit_server(connection: Connection) -> str | None:
    """Why this server cannot hold our data, None when it can."""
    if connection.dialect.name != "postgresql":
        return None
    number = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if number < _OLDEST_POSTGRESQL * 10_000:
        return (
            f"its server is PostgreSQL {number // 10_000}, {_OLDEST_POSTGRESQL} or newer is needed"
        )
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        return f"its encoding is {encoding}, UTF8 is needed"
    return None


def found_version(connection: Connection, kind: DatabaseKind) -> str | None:
    """The version that a database says it has, None when it says none."""
    if not inspect(connection).has_table(version_table(kind)):
        return None
    rows = connection.execute(text(f"SELECT version_num FROM {version_table(kind)}")).scalars()
    versions = sorted(rows)
    return "+".join(versions) if versions else None


def _difference(connection: Connection, kind: DatabaseKind) -> str | None:
    """What is missing of the tables, None when nothing is."""
    inspector = inspect(connection)
    present = set(inspector.get_table_names())
    for table in metadata_of(kind).sorted_tables:
        if table.name not in present:
            return f"table {table.name} is missing"
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        missing = sorted({column.name for column in table.columns} - columns)
        if missing:
            return f"table {table.name} lacks {', '.join(missing)}"
    return None


def alembic_config(kind: DatabaseKind) -> Config:
    """Alembic's configuration; the env.py of `kind` wants a connection in its attributes."""
    config = Config()
    # configparser would read a percent sign in the path as an interpolation.
    folder = str(locate(_MIGRATIONS[kind])).replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    config.attributes["version_table"] = version_table(kind)
    config.attributes["metadata"] = metadata_of(kind)
    return config


def _report(
    url: str,
    kind: DatabaseKind,
    state: SchemaState,
    found: str | None = None,
    detail: str | None = None,
) -> SchemaReport:
    expected = newest_version(kind)
    return SchemaReport(
        url=url, kind=kind, state=state, found=found, expected=expected, detail=detail
    )


def _describe(report: SchemaReport) -> str:
    where = f"the {report.kind} database {place_of(report.url)}"
    match report.state:
        case SchemaState.ABSENT:
            if sqlite_path(report.url) is None:  # a server that has no such database says so itself
                return f"{where} holds no {report.kind} tables yet"
            return f"{where} does not exist yet"
        case SchemaState.OLDER:
            version = report.found or "none"
            return f"{where} has schema {version}, this Pilothouse needs {report.expected}"
        case SchemaState.UNKNOWN:
            return (
                f"{where} has schema {report.found}, which this Pilothouse does not know "
                f"(it knows {report.expected}): a newer one wrote it"
            )
        case SchemaState.FOREIGN:
            return f"{where} is not usable: {report.detail}"
        case SchemaState.CURRENT:
            return f"{where} has schema {report.found}"


def _remedy(report: SchemaReport) -> str | None:
    path = sqlite_path(report.url)
    match report.state:
        case SchemaState.ABSENT | SchemaState.OLDER:
            given = f"--{report.kind}-url {shlex.quote(masked(report.url))}"
            where = f"--state-dir {path.parent}" if path else given
            return f"Stop Pilothouse and run: pilothouse db upgrade {where}"
        case SchemaState.UNKNOWN:
            return "Start the newer Pilothouse again, or restore a backup from before its upgrade"
        case SchemaState.FOREIGN:
            aside = f"move {path} away" if path else "name another database"
            return f"Restore a backup, or {aside} to start with an empty one"
        case SchemaState.CURRENT:
            return None

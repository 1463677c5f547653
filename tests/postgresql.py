"""A throw-away PostgreSQL cluster: on a Unix socket, nothing flushed, gone at the end.

PostgreSQL refuses to run as root; then the cluster belongs to the user `postgres`, or `nobody`.
Its language is English and not C, so that what relies on the order of bytes is found out.
"""

import itertools
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from controlplane.store.connection import DatabaseKind
from controlplane.store.upgrade import upgrade_database

_DEBIAN = Path("/usr/lib/postgresql")
_OLDEST = 15
_TEMPLATE = "pilothouse_template"
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "listen_addresses": "",
    "shared_buffers": "64MB",
}


_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_VERSIONS = "%schema_version"
_OWN = "nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'"
_SHAPE = f"""
WITH own AS (SELECT oid, nspname FROM pg_namespace WHERE {_OWN})
SELECT md5(string_agg(told, chr(10) ORDER BY told)) FROM (
  SELECT concat_ws(' ', nspname, relname, relkind, relpersistence) AS told
  FROM pg_class JOIN own ON relnamespace = own.oid
  UNION ALL SELECT nspname FROM own
  UNION ALL SELECT concat_ws(' ', attrelid::regclass, attname, atttypid::regtype, attnotnull)
  FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid JOIN own ON relnamespace = own.oid
  WHERE attnum > 0
  UNION ALL SELECT concat_ws(' ', adrelid::regclass, adnum, pg_get_expr(adbin, adrelid))
  FROM pg_attrdef
  UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(c.oid))
  FROM pg_constraint c JOIN own ON connamespace = own.oid
  UNION ALL SELECT concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid)
  FROM pg_index JOIN pg_class ON indrelid = pg_class.oid JOIN own ON relnamespace = own.oid
  UNION ALL SELECT concat_ws(' ', pg_get_triggerdef(oid), tgenabled)
  FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT concat_ws(' ', proname, prosrc)
  FROM pg_proc JOIN own ON pronamespace = own.oid
  UNION ALL SELECT array_to_string(setconfig, ' ') FROM pg_db_role_setting
  UNION ALL SELECT query_to_xml(format('TABLE %I.%I', nspname, relname), true, false, '')::text
  FROM pg_class JOIN own ON relnamespace = own.oid
  WHERE relkind = 'r' AND relname LIKE '{_VERSIONS}'
  UNION ALL SELECT round(log(2.0, pg_database_size(current_database())))::text
) AS parts
"""
_STATEMENTS_THAT_EMPTY = f"""
SELECT format('DELETE FROM %I.%I', schemaname, tablename) FROM pg_tables
WHERE {_OWN.replace("nspname", "schemaname")} AND tablename NOT LIKE '{_VERSIONS}'
UNION ALL SELECT format('ALTER SEQUENCE %I.%I RESTART', schemaname, sequencename)
FROM pg_sequences
"""


class PostgresqlMissingError(Exception):
    """No PostgreSQL that is new enough is installed here."""


@dataclass(slots=True)
class Cluster:
    """A running server."""

    folder: Path
    """Where its socket and its data are."""
    _options: str = ""
    """Of the server."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _emptied: list[str] = field(default_factory=list)
    """Databases as the template is: what earlier tests wrote is out of them again."""
    _shape: str = ""
    """Of the template."""

    def url(self, database: str) -> str:
        """URL of one of its databases."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def create(self, template: str = _TEMPLATE) -> str:
        """The name of a new database with the newest schemas; with "template0" an empty one."""
        if template == _TEMPLATE and self._emptied:
            return self._emptied.pop()
        name = f"t{next(self._numbers)}"
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return name

    def create_on(self, folder: Path) -> str:
        """As `create`, with its files in `folder`, which may be a disk of its own."""
        owner = self.folder.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        place = sql.Identifier(folder.name)
        self._execute(
            sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(place, sql.Literal(str(folder)))
        )
        name = f"t{next(self._numbers)}"
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} TABLESPACE {}").format(
                sql.Identifier(name), sql.Identifier(_TEMPLATE), place
            )
        )
        return name

    def forget(self, folder: Path) -> None:
        """Have no more to do with a folder whose databases are dropped."""
        self._execute(sql.SQL("DROP TABLESPACE {}").format(sql.Identifier(folder.name)))

    def drop(self, database: str) -> None:
        """Remove a database, whoever is still connected."""
        self._execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
        )

    @property
    def num_emptied(self) -> int:
        """How many `create` can give without a copy."""
        return len(self._emptied)

    def give_back(self, database: str) -> None:
        """Have it emptied for the next who wants one, which takes milliseconds where another copy
        of the template takes a tenth of a second; removed if its schema was touched."""
        if self._empty(database):
            self._emptied.append(database)
        else:
            self.drop(database)

    def _empty(self, database: str) -> bool:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(_END_OTHERS)
            if self._shape != _shape_of(connection):
                return False
            rows = connection.execute(_STATEMENTS_THAT_EMPTY).fetchall()
            statements = ["SET LOCAL session_replication_role = replica", *(row[0] for row in rows)]
            with connection.transaction():
                connection.execute(sql.SQL("; ").join(sql.SQL(each) for each in statements))
        return True

    def start(self) -> None:
        """The server, which does not run."""
        command = [*self._control(), "-w", "-l", self.folder / "log", "-o", self._options, "start"]
        _run(_owner(), command)

    def stop(self) -> None:
        """The server, as if it were killed."""
        _run(_owner(), [*self._control(), "-m", "immediate", "stop"])

    def _control(self) -> list[str | Path]:
        return [find_tools() / "pg_ctl", "-D", self.folder / "data"]

    def make_template(self) -> None:
        """Migrate once what every test starts from."""
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        for kind in DatabaseKind:
            upgrade_database(self.url(_TEMPLATE), kind)
        with psycopg.connect(self.url(_TEMPLATE)) as connection:
            self._shape = _shape_of(connection)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


def _shape_of(connection: psycopg.Connection) -> str:
    """Of all that is in a database but the rows of its tables; those that name its schema's version
    count as well, and so does its size, to the nearest power of two."""
    row = connection.execute(_SHAPE).fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def running_cluster(settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster for the length of the block, with more settings of the server.

    Raises PostgresqlMissingError.
    """
    tools = find_tools()
    folder = Path(tempfile.mkdtemp(prefix="pilothouse-pg-", dir="/tmp"))  # sockets: short paths
    owner = _owner()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        folder.chmod(0o755)
    data = folder / "data"
    try:
        make: list[str | Path] = [
            tools / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        language = ["--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync"]
        _run(owner, [*make, *language])
        options = " ".join(
            f"-c {name}='{value}'" for name, value in {**_SETTINGS, **(settings or {})}.items()
        )
        cluster = Cluster(folder, f"{options} -k {folder}")
        cluster.start()
        try:
            cluster.make_template()
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_tools(debian: Path = _DEBIAN) -> Path:
    """The folder with the newest server's programs, where Debian keeps them or pg_config says.

    Raises PostgresqlMissingError. pg_config alone is no server: it comes with the client's files.
    """
    for folder in (*sorted(debian.glob("*/bin"), key=_version_of, reverse=True), *_told_folder()):
        if _version_of(folder) >= _OLDEST:
            return folder
    raise PostgresqlMissingError(
        f"these tests need the server of PostgreSQL {_OLDEST} or newer: run ops/setup-test.sh as "
        f"root, or 'apt-get install postgresql'"
    )


def _told_folder() -> list[Path]:
    with suppress(OSError, subprocess.CalledProcessError):
        told = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=True
        ).stdout.strip()
        return [Path(told)]
    return []


def _version_of(tools: Path) -> int:
    """Of the server in this folder; 0 where there is none."""
    with suppress(OSError, subprocess.CalledProcessError):
        said = subprocess.run(
            [tools / "initdb", "--version"], capture_output=True, text=True, check=True
        ).stdout
        if found := re.search(r"(\d+)", said):
            return int(found.group(1))
    return 0


def _owner() -> pwd.struct_passwd | None:
    """Who the server runs as; None: as we do."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _run(owner: pwd.struct_passwd | None, command: Sequence[str | Path]) -> None:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        user=owner.pw_uid if owner else None,
        group=owner.pw_gid if owner else None,
        extra_groups=[] if owner else None,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_tools()}\n")
    except PostgresqlMissingError as error:
        sys.exit(str(error))

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


class PostgresqlMissingError(Exception):
    """No PostgreSQL that is new enough is installed here."""


@dataclass(slots=True)
class Cluster:
    """A running server."""

    folder: Path
    """Where its socket is."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str) -> str:
        """URL of one of its databases."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def create(self, template: str = _TEMPLATE) -> str:
        """The name of a new database with the newest schemas; with "template0" an empty one."""
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

    def make_template(self) -> None:
        """Migrate once what every test starts from."""
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        for kind in DatabaseKind:
            upgrade_database(self.url(_TEMPLATE), kind)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


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
        start: list[str | Path] = [tools / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o"]
        _run(owner, [*start, f"{options} -k {folder}", "start"])
        try:
            cluster = Cluster(folder)
            cluster.make_template()
            yield cluster
        finally:
            _run(owner, [tools / "pg_ctl", "-D", data, "-m", "immediate", "stop"])
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

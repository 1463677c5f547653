"""A throw-away PostgreSQL 15 cluster: on a Unix socket, nothing flushed, gone at the end.

PostgreSQL refuses to run as root; then the cluster belongs to the user `postgres`, or `nobody`.
Its language is English and not C, so that what relies on the order of bytes is found out.
"""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from controlplane.store.connection import DatabaseKind
from controlplane.store.upgrade import upgrade_database

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
    """PostgreSQL 15 is not installed here."""


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
    tools = _find_tools()
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


def _find_tools() -> Path:
    candidates = [Path("/usr/lib/postgresql/15/bin")]
    with suppress(OSError, subprocess.CalledProcessError):
        told = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=True
        ).stdout.strip()
        candidates.append(Path(told))
    for folder in candidates:
        if (folder / "initdb").exists():
            return folder
    raise PostgresqlMissingError(
        "these tests need PostgreSQL 15: run ops/setup-test.sh as root, or "
        "'apt-get install postgresql-15'"
    )


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

"""Databases of one test: where they are, and how to get one, whatever holds them."""

import tempfile
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path

from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database, open_database
from tests.postgresql import Cluster


@cache
def _migrated(kind: DatabaseKind) -> bytes:
    """An SQLite file as the migrations leave it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.db"
        create_or_open_database(sqlite_url(path), kind).close()
        return path.read_bytes()


def create_sqlite(path: Path, kind: DatabaseKind) -> str:
    """The URL of a database at `path`, with the newest schema; one that is there stays as it is.

    It is a copy, as of PostgreSQL's template: migrations run once and not for every test. Tests of
    migrations, and of what is there when nothing is, run them themselves.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_migrated(kind))
    return sqlite_url(path)


def open_sqlite(path: Path, kind: DatabaseKind) -> Database:
    """As `create_sqlite`; the caller closes it."""
    return open_database(create_sqlite(path, kind), kind)


class Databases(ABC):
    """Made when first asked for; all of a test's calls name the same ones."""

    @abstractmethod
    def url(self, kind: DatabaseKind) -> str:
        """Of a database with the newest schema and nothing in it."""

    @abstractmethod
    def empty_url(self) -> str:
        """Of another one, with nothing in it."""

    def open(self, kind: DatabaseKind) -> Database:
        """The caller closes it."""
        return open_database(self.url(kind), kind)

    def urls(self) -> dict[DatabaseKind, str]:
        """Both."""
        return {kind: self.url(kind) for kind in DatabaseKind}


class SqliteDatabases(Databases):
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_empty = 0

    def url(self, kind: DatabaseKind) -> str:
        return create_sqlite(self._folder / f"{kind}.db", kind)

    def empty_url(self) -> str:
        self._num_empty += 1
        return sqlite_url(self._folder / f"empty-{self._num_empty}.db")


class PostgresqlDatabases(Databases):
    """Databases of a cluster. Both kinds share one, as they may."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._made: list[str] = []
        self._name: str | None = None

    def url(self, kind: DatabaseKind) -> str:
        if self._name is None:
            self._name = self._create("pilothouse_template")
        return self._cluster.url(self._name)

    def empty_url(self) -> str:
        return self._cluster.url(self._create("template0"))

    def drop(self) -> None:
        """Remove them."""
        for name in self._made:
            self._cluster.give_back(name)

    def _create(self, template: str) -> str:
        name = self._cluster.create(template)
        self._made.append(name)
        return name

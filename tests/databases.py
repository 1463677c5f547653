"""Databases of one test: where they are, and how to get one, whatever holds them."""

from abc import ABC, abstractmethod
from pathlib import Path

from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database
from tests.postgresql import Cluster


class Databases(ABC):
    """Made when first asked for; all of a test's calls name the same ones."""

    @abstractmethod
    def url(self, kind: DatabaseKind) -> str:
        """Of a database with the newest schema, or that can be created."""

    @abstractmethod
    def empty_url(self) -> str:
        """Of another one, with nothing in it."""

    def open(self, kind: DatabaseKind) -> Database:
        """The caller closes it."""
        return create_or_open_database(self.url(kind), kind)

    def urls(self) -> dict[DatabaseKind, str]:
        """Both."""
        return {kind: self.url(kind) for kind in DatabaseKind}


class SqliteDatabases(Databases):
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_empty = 0

    def url(self, kind: DatabaseKind) -> str:
        return sqlite_url(self._folder / f"{kind}.db")

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
            self._cluster.drop(name)

    def _create(self, template: str) -> str:
        name = self._cluster.create(template)
        self._made.append(name)
        return name

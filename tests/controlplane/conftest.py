"""Databases to test with: every test that asks for one runs on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher, profiles

from controlplane.access import passwords
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from tests.databases import Databases, PostgresqlDatabases, SqliteDatabases
from tests.postgresql import Cluster, PostgresqlMissingError, running_cluster


@pytest.fixture(scope="session", autouse=True)
def real_hasher() -> Iterator[Callable[[], PasswordHasher]]:
    """What passwords are hashed by where it counts. Here a cheap one takes its place: a hash is
    made to be slow, and hundreds of logins are tried."""
    real = passwords.hasher
    cheap = PasswordHasher.from_parameters(profiles.CHEAPEST)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(passwords, "hasher", lambda: cheap)
        yield real


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, started when the first test asks for it."""
    try:
        with running_cluster() as cluster:
            yield cluster
    except PostgresqlMissingError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Databases]:
    """Where this test's databases are, on each kind of server in turn."""
    if request.param == "sqlite":
        yield SqliteDatabases(tmp_path)
        return
    made = PostgresqlDatabases(request.getfixturevalue("cluster"))
    yield made
    made.drop()


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """An empty one for config, of each kind; files whose tests need more in it have their own."""
    made = databases.open(DatabaseKind.CONFIG)
    yield made
    made.close()


@pytest.fixture
def postgresql(cluster: Cluster) -> Iterator[PostgresqlDatabases]:
    """For what only PostgreSQL does."""
    made = PostgresqlDatabases(cluster)
    yield made
    made.drop()

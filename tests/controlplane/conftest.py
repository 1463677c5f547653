"""Databases to test with: every test that asks for one runs on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import Databases, PostgresqlDatabases, SqliteDatabases
from tests.postgresql import Cluster, PostgresqlMissingError, running_cluster


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
def postgresql(cluster: Cluster) -> Iterator[PostgresqlDatabases]:
    """For what only PostgreSQL does."""
    made = PostgresqlDatabases(cluster)
    yield made
    made.drop()

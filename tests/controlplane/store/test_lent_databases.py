"""A database that a test gives back is as new for the next one, or is not lent again."""

import psycopg
import pytest

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import open_database
from tests.postgresql import Cluster


@pytest.fixture(scope="module")
def lending(cluster: Cluster) -> Cluster:
    """With nothing lent before: whatever comes back is what was given back."""
    while cluster.num_emptied:
        cluster.drop(cluster.create())
    return cluster


def _give_back_after(cluster: Cluster, statement: str) -> str:
    name = cluster.create()
    with psycopg.connect(cluster.url(name), autocommit=True) as connection:
        connection.execute(statement)
    cluster.give_back(name)
    return name


def test_what_was_written_is_out_and_numbers_begin_anew(lending: Cluster) -> None:
    audited = (
        "INSERT INTO audit_events (at_unix_ns, actor, action, subject, reason) "
        "VALUES (1, 'anna', 'tried', 'it', 'a test')"
    )
    name = _give_back_after(lending, audited)
    again = lending.create()
    assert again == name
    open_database(lending.url(again), DatabaseKind.CONFIG).close()
    with psycopg.connect(lending.url(again)) as connection:
        count = connection.execute("SELECT count(*) FROM audit_events").fetchone()
        number = connection.execute(f"{audited} RETURNING id").fetchone()
    assert (count, number) == ((0,), (1,))
    lending.drop(again)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE another (id int)",
        "CREATE SCHEMA another",
        "CREATE INDEX another ON incidents (state)",
        "ALTER TABLE incidents ADD COLUMN another int",
        "ALTER TABLE incidents ALTER COLUMN state DROP NOT NULL",
        "ALTER TABLE audit_events DISABLE TRIGGER ALL",
        "DROP TRIGGER audit_events_append_only ON audit_events",
        "UPDATE config_schema_version SET version_num = '0001'",
        "CREATE TABLE large AS SELECT generate_series(1, 200000)",
        "INSERT INTO users SELECT n::text, 'admin', NULL, repeat('x', 99), false, 'anna', 1 FROM "
        "generate_series(1, 50000) AS n",
    ],
)
def test_one_whose_schema_or_size_is_another_is_not_lent_again(
    lending: Cluster, statement: str
) -> None:
    name = _give_back_after(lending, statement)
    assert lending.num_emptied == 0
    assert lending.create() != name


def test_who_still_holds_a_connection_is_thrown_out(lending: Cluster) -> None:
    name = lending.create()
    with psycopg.connect(lending.url(name)) as held:
        held.execute("LOCK TABLE incidents")
        lending.give_back(name)
        with pytest.raises(psycopg.OperationalError):
            held.execute("SELECT 1")
    lending.drop(lending.create())

"""A database is opened only when its schema is exactly the one the code knows."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect

from controlplane.bundled import Bundled, locate
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import (
    SchemaError,
    SchemaState,
    UpgradeError,
    create_or_open_database,
    inspect_schema,
    open_database,
    upgrade_database,
)
from controlplane.store.schema import metadata_of, newest_version, version_table
from controlplane.store.upgrade import migrate

NEWEST = newest_version(DatabaseKind.CONFIG)
each_kind = pytest.mark.parametrize("kind", list(DatabaseKind))


def url_in(folder: Path) -> str:
    return sqlite_url(folder / "state" / "x.db")


def execute(url: str, *statements: str) -> None:
    with closing(sqlite3.connect(path_of(url))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


@each_kind
def test_the_migrations_make_exactly_the_tables_that_the_code_maps(
    tmp_path: Path, kind: DatabaseKind
) -> None:
    upgrade_database(url_in(tmp_path), kind)
    engine = create_engine(url_in(tmp_path))

    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": version_table(kind),
                "compare_type": True,
                "compare_server_default": True,
            },
        )
        differences = compare_metadata(context, metadata_of(kind))
        tables = set(inspect(connection).get_table_names())

    engine.dispose()
    assert differences == []
    assert tables == {*metadata_of(kind).tables, version_table(kind)}


@each_kind
def test_migrations_go_down_to_nothing_and_up_again(tmp_path: Path, kind: DatabaseKind) -> None:
    url = url_in(tmp_path)
    upgrade_database(url, kind)

    migrate(url, kind, "base")

    with closing(sqlite3.connect(path_of(url))) as connection:
        left = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert left == [(version_table(kind),)]
    assert inspect_schema(url, kind).state is SchemaState.OLDER
    assert upgrade_database(url, kind).state is SchemaState.OLDER
    assert inspect_schema(url, kind).state is SchemaState.CURRENT


@each_kind
def test_looking_at_an_absent_database_creates_nothing(tmp_path: Path, kind: DatabaseKind) -> None:
    report = inspect_schema(url_in(tmp_path), kind)

    assert report.state is SchemaState.ABSENT
    assert list(tmp_path.iterdir()) == []


@each_kind
def test_an_absent_database_is_created_when_asked_for(tmp_path: Path, kind: DatabaseKind) -> None:
    create_or_open_database(url_in(tmp_path), kind).close()

    open_database(url_in(tmp_path), kind).close()


def test_an_empty_file_counts_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "config.db"
    path.touch()

    create_or_open_database(sqlite_url(path), DatabaseKind.CONFIG).close()


def of_the_future(url: str) -> None:
    execute(url, "UPDATE config_schema_version SET version_num = '9999'")


def older(url: str) -> None:
    migrate(url, DatabaseKind.CONFIG, "base")


def without_a_table(url: str) -> None:
    execute(url, "DROP TABLE snapshot_versions")


def without_a_column(url: str) -> None:
    execute(url, "ALTER TABLE revisions DROP COLUMN reason")


def of_two_versions(url: str) -> None:
    execute(url, "INSERT INTO config_schema_version VALUES ('0000')")


def not_a_database(url: str) -> None:
    path_of(url).write_bytes(b"these are not the bytes of a database\n" * 100)


def of_somebody_else(url: str) -> None:
    path_of(url).unlink()
    execute(url, "CREATE TABLE photos (id INTEGER)")


@pytest.mark.parametrize(
    ("spoil", "state", "said", "remedy"),
    [
        (
            older,
            "older",
            f"has schema none, this Pilothouse needs {NEWEST}",
            "pilothouse db upgrade",
        ),
        (of_the_future, "unknown", "has schema 9999", "Start the newer Pilothouse again"),
        (of_two_versions, "unknown", f"has schema 0000+{NEWEST}", "restore a backup"),
        (without_a_table, "foreign", "table snapshot_versions is missing", "Restore a backup"),
        (without_a_column, "foreign", "table revisions lacks reason", "Restore a backup"),
        (not_a_database, "foreign", "it is no SQLite database", "to start with an empty one"),
        (of_somebody_else, "foreign", "photos", "to start with an empty one"),
    ],
)
def test_a_schema_that_is_not_known_stops_the_start_and_says_what_to_do(
    tmp_path: Path, spoil: Callable[[str], Any], state: str, said: str, remedy: str
) -> None:
    url = url_in(tmp_path)
    upgrade_database(url, DatabaseKind.CONFIG)
    spoil(url)
    before = path_of(url).read_bytes()

    with pytest.raises(SchemaError) as raised:
        create_or_open_database(url, DatabaseKind.CONFIG)

    assert raised.value.report.state == state
    assert said in str(raised.value)
    assert remedy in str(raised.value)
    assert str(path_of(url)) in str(raised.value)
    assert path_of(url).read_bytes() == before, "looking changed the file"


def test_the_remedy_is_a_command_for_this_state_directory(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="run: pilothouse db upgrade --state-dir") as raised:
        open_database(url_in(tmp_path), DatabaseKind.REQUESTS)

    assert str(raised.value).endswith(f"--state-dir {tmp_path / 'state'}")


def test_one_kind_of_database_is_not_taken_for_the_other(tmp_path: Path) -> None:
    upgrade_database(url_in(tmp_path), DatabaseKind.REQUESTS)

    with pytest.raises(SchemaError, match="holds tables but no config_schema_version"):
        upgrade_database(url_in(tmp_path), DatabaseKind.CONFIG)


@pytest.mark.parametrize("spoil", [of_the_future, without_a_table, of_somebody_else])
def test_an_upgrade_leaves_alone_what_it_does_not_understand(
    tmp_path: Path, spoil: Callable[[str], Any]
) -> None:
    url = url_in(tmp_path)
    upgrade_database(url, DatabaseKind.CONFIG)
    spoil(url)
    before = path_of(url).read_bytes()

    with pytest.raises(SchemaError):
        upgrade_database(url, DatabaseKind.CONFIG)

    assert path_of(url).read_bytes() == before


def test_an_upgrade_that_fails_on_the_copy_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    url = url_in(tmp_path)
    upgrade_database(url, DatabaseKind.CONFIG)
    older(url)
    execute(url, "CREATE TABLE snapshot_versions (mine INTEGER)")
    before = path_of(url).read_bytes()

    with pytest.raises(UpgradeError, match="table snapshot_versions already exists"):
        upgrade_database(url, DatabaseKind.CONFIG)

    assert path_of(url).read_bytes() == before
    assert [p.name for p in path_of(url).parent.iterdir() if p.name.startswith("upgrade-")] == []


def test_an_upgrade_that_fails_half_way_is_rolled_back_whole(tmp_path: Path) -> None:
    url = url_in(tmp_path)
    upgrade_database(url, DatabaseKind.CONFIG)
    older(url)
    execute(url, "CREATE TABLE snapshot_versions (mine INTEGER)")

    with pytest.raises(Exception, match="already exists"):
        migrate(url, DatabaseKind.CONFIG, "head")

    with closing(sqlite3.connect(path_of(url))) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert names >= {"snapshot_versions", "config_schema_version"}
    assert "revisions" not in names


def test_migrations_that_break_a_reference_are_not_kept(tmp_path: Path) -> None:
    url = url_in(tmp_path)
    upgrade_database(url, DatabaseKind.CONFIG)
    columns = "replica_id, state, reason, at_unix_ns"
    execute(url, f"INSERT INTO replica_transitions ({columns}) VALUES ('nobody', 'ready', '', 1)")

    with pytest.raises(UpgradeError, match="row 1 of replica_transitions, to replicas"):
        migrate(url, DatabaseKind.CONFIG, "head")


@pytest.mark.parametrize("bundled", list(Bundled))
def test_everything_that_ships_is_found_in_the_source_tree(bundled: Bundled) -> None:
    assert locate(bundled).is_dir()


def test_a_state_directory_may_have_any_name(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "50% off? #1" / "x.db")

    create_or_open_database(url, DatabaseKind.CONFIG).close()

    assert (tmp_path / "50% off? #1" / "x.db").exists()

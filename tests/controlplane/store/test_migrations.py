"""Every migration goes up and down, on both kinds of server, and expands before it contracts."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select, text

from controlplane.store.connection import DatabaseKind, create_bare_engine
from controlplane.store.database import open_database
from controlplane.store.request_tables import RequestRow
from controlplane.store.schema import (
    SchemaState,
    alembic_config,
    inspect_schema,
    metadata_of,
    version_table,
)
from controlplane.store.upgrade import migrate, try_upgrade
from tests.databases import Databases

each_kind = pytest.mark.parametrize("kind", list(DatabaseKind))
Columns = dict[tuple[str, str], bool]
"""By table and column: whether a writer that does not know it may leave it out."""


def versions(kind: DatabaseKind) -> list[str]:
    scripts = ScriptDirectory.from_config(alembic_config(kind))
    return [script.revision for script in scripts.walk_revisions()][::-1]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_bare_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def columns(url: str, kind: DatabaseKind) -> Columns:
    with connected(url) as connection:
        inspector = inspect(connection)
        return {
            (table, column["name"]): bool(column["nullable"] or column["default"] is not None)
            for table in inspector.get_table_names()
            if table != version_table(kind)
            for column in inspector.get_columns(table)
        }


@each_kind
def test_every_step_up_can_be_taken_back_and_taken_again(
    databases: Databases, kind: DatabaseKind
) -> None:
    url = databases.empty_url()
    seen: list[Columns] = [{}]
    for version in versions(kind):
        migrate(url, kind, version)
        seen.append(columns(url, kind))

    for version, expected in zip(["base", *versions(kind)][::-1][1:], seen[::-1][1:], strict=True):
        migrate(url, kind, version)
        assert columns(url, kind) == expected, f"down to {version}"

    migrate(url, kind, "head")
    assert inspect_schema(url, kind).state is SchemaState.CURRENT


@each_kind
def test_the_last_step_makes_exactly_the_tables_that_the_code_maps(
    databases: Databases, kind: DatabaseKind
) -> None:
    url = databases.empty_url()
    migrate(url, kind, "head")
    with connected(url) as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": version_table(kind), "compare_type": True}
        )
        assert compare_metadata(context, metadata_of(kind)) == []


@each_kind
def test_an_expanded_schema_takes_what_the_code_before_it_writes(
    databases: Databases, kind: DatabaseKind
) -> None:
    url = databases.empty_url()
    scripts = ScriptDirectory.from_config(alembic_config(kind))
    before: Columns = {}
    for version in versions(kind):
        migrate(url, kind, version)
        after = columns(url, kind)
        if not hasattr(scripts.get_revision(version).module, "CONTRACTS"):
            assert set(before) <= set(after), f"{version} removes columns, and does not say so"
            tables = {table for table, _ in before}
            added = {key for key in set(after) - set(before) if key[0] in tables}
            assert all(after[key] for key in added), f"{version} adds columns that must be written"
        before = after


def test_the_output_of_requests_that_were_lost_before_is_called_unknown(
    databases: Databases,
) -> None:
    url, kind = databases.empty_url(), DatabaseKind.REQUESTS
    migrate(url, kind, "0005")
    with connected(url) as connection:
        for sequence, disposition in enumerate(("lost", "rejected")):
            connection.execute(
                text(
                    "INSERT INTO requests (gateway_id, gateway_sequence, request_id, trace_id,"
                    " arrived_at_unix_ns, num_attempts, disposition, delivery, num_output_tokens)"
                    " VALUES ('g', :sequence, 'r', 't', 1, 0, :disposition, 'none', 0)"
                ),
                {"sequence": sequence, "disposition": disposition},
            )
        connection.commit()
    migrate(url, kind, "head")
    database = open_database(url, kind)
    with database.reading() as session:
        rows = session.scalars(select(RequestRow).order_by(RequestRow.gateway_sequence))
        assert [row.num_output_tokens for row in rows] == [None, 0]
    database.close()


def test_what_alerts_alone_told_of_is_taken_back_with_them(databases: Databases) -> None:
    """Releases of before fail at an incident without a mechanism, and at events of alerts."""
    url, kind = databases.empty_url(), DatabaseKind.CONFIG
    migrate(url, kind, "0007")
    with connected(url) as connection:
        for incident_id, mechanism in (("alerted", ""), ("found", "queue.overload")):
            connection.execute(
                text(
                    "INSERT INTO incidents (incident_id, deployment, state, mechanism, confidence,"
                    " opened_at_unix_ns, last_seen_at_unix_ns, num_reopened)"
                    " VALUES (:incident_id, 'chat', 'open', :mechanism, '', 1, 1, 0)"
                ),
                {"incident_id": incident_id, "mechanism": mechanism},
            )
            for event in ("opened", "alerted", "ended"):
                connection.execute(
                    text(
                        "INSERT INTO incident_events (incident_id, at_unix_ns, kind, actor, what)"
                        " VALUES (:incident_id, 1, :event, 'pilothouse', 'x')"
                    ),
                    {"incident_id": incident_id, "event": event},
                )
        connection.commit()
    migrate(url, kind, "0006")
    with connected(url) as connection:
        query = text("SELECT incident_id, kind FROM incident_events ORDER BY id")
        found = [tuple(row) for row in connection.execute(query)]
        assert found == [("found", "opened"), ("found", "note"), ("found", "note")]
        assert connection.scalars(text("SELECT incident_id FROM incidents")).all() == ["found"]


@each_kind
def test_an_upgrade_that_is_only_tried_leaves_the_older_schema(
    databases: Databases, kind: DatabaseKind
) -> None:
    url = databases.empty_url()
    migrate(url, kind, "0001")
    before = columns(url, kind)

    assert try_upgrade(url, kind).state is SchemaState.OLDER

    assert columns(url, kind) == before
    assert inspect_schema(url, kind).found == "0001"

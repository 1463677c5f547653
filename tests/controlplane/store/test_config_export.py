"""What is exported and taken in elsewhere is the same config, whatever database holds it."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from controlplane.store.config_export import (
    ConfigExport,
    DamagedConfigError,
    ExportedRow,
    digest_over,
    export_config,
)
from controlplane.store.config_import import (
    FilledDatabaseError,
    RefusedExportError,
    decode_export,
    import_config,
)
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database, create_or_open_database
from controlplane.store.deployments import find_deployment, list_changes
from controlplane.store.integrity import read_config_digest
from controlplane.store.revisions import apply_documents, list_latest
from controlplane.store.rollouts import find_last
from controlplane.store.tables import RevisionRow
from tests.controlplane.config_documents import DEPLOYMENT, DESIGN_POLICY, MODEL, SERVICE, documents
from tests.databases import Databases

STEPS = "rollout: {steps: [{share: 5%, for: 1m}, {share: 50%, for: 1m}]}, replicas: 2}"
IN_STEPS = DEPLOYMENT.replace("replicas: 2}", STEPS)
OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")


@pytest.fixture
def other(databases: Databases) -> Iterator[Database]:
    """Another database, with nothing in it."""
    made = create_or_open_database(databases.empty_url(), DatabaseKind.CONFIG)
    yield made
    made.close()


def apply(database: Database, *texts: str, at: int, reason: str = "") -> None:
    with database.session() as session:
        apply_documents(
            session, documents(*texts), author=f"ann-{at}", reason=reason, clock=lambda: at
        )


def fill(database: Database) -> None:
    """Two documents have two revisions, a rollout is over and another under way."""
    apply(database, *SERVICE[:-1], IN_STEPS, at=1, reason="first light")
    apply(database, DESIGN_POLICY.replace("64", "65"), MODEL, at=2)
    apply(database, OTHER_MODEL, at=3, reason="größer")


def export(database: Database) -> ConfigExport:
    with database.reading() as session:
        return export_config(session)


def take(database: Database, exported: ConfigExport) -> None:
    with database.session() as session:
        import_config(session, decode_export(msgspec.json.encode(exported)), actor="bob")


def test_export_wipe_import_gives_the_same_numbers_and_digests(
    database: Database, other: Database
) -> None:
    fill(database)

    take(other, export(database))

    assert export(other) == export(database)
    with database.engine.connect() as old, other.engine.connect() as new:
        assert read_config_digest(new) == read_config_digest(old)


def test_deployments_and_their_rollouts_stand_where_they_stood(
    database: Database, other: Database
) -> None:
    fill(database)

    take(other, export(database))

    with other.reading() as session:
        chat = find_deployment(session, "chat")
        assert chat is not None
        assert chat.revisions.model.label == "smollm2@1"
        assert chat.rollout is not None
        assert chat.rollout.candidate.model.label == "smollm2@2"
        assert [each.author for each in list_changes(session, "chat")] == ["ann-1"]
        assert chat.observed_generation == 0


def test_what_comes_after_an_import_is_numbered_on(database: Database, other: Database) -> None:
    fill(database)
    take(other, export(database))

    apply(other, MODEL, at=9)

    with other.reading() as session:
        [model] = [each for each in list_latest(session) if each.name == "smollm2"]
        last = find_last(session, "chat")
    assert model.number == 3
    assert last is not None
    assert last.number == 3


def test_nothing_is_taken_in_where_config_is(database: Database, other: Database) -> None:
    fill(database)
    apply(other, MODEL, at=1)

    with pytest.raises(FilledDatabaseError, match="pilothouse apply -f"):
        take(other, export(database))

    with other.reading() as session:
        assert [each.label for each in list_latest(session)] == ["smollm2@1"]


def with_document(exported: ConfigExport, document: dict[str, Any]) -> ConfigExport:
    first, *rest = exported.revisions
    changed = msgspec.structs.replace(first, document=document)
    return msgspec.structs.replace(exported, revisions=(changed, *rest))


def test_a_document_that_was_changed_on_the_way_is_refused(
    database: Database, other: Database
) -> None:
    fill(database)
    exported = export(database)
    document = exported.revisions[0].document | {"spec": {"artifact": {"path": "/elsewhere"}}}

    with pytest.raises(RefusedExportError, match="Model/smollm2@1 has another digest"):
        take(other, with_document(exported, document))

    assert export(other).revisions == ()


def test_a_revision_that_is_missing_is_noticed(database: Database, other: Database) -> None:
    fill(database)
    exported = export(database)

    with pytest.raises(RefusedExportError, match="are not those that were exported"):
        take(other, msgspec.structs.replace(exported, revisions=exported.revisions[:-1]))


def test_a_row_that_cannot_be_stored_takes_all_the_others_back(
    database: Database, other: Database
) -> None:
    fill(database)
    exported = export(database)
    row = next(each for each in exported.rows if each.table == "rollouts")
    broken = ExportedRow(table="rollouts", values=row.values | {"state": None})

    with pytest.raises(RefusedExportError, match="cannot be stored"):
        take(other, msgspec.structs.replace(exported, rows=(*exported.rows, broken)))

    assert export(other).revisions == ()


def test_a_row_names_only_revisions_that_are_there(database: Database, other: Database) -> None:
    fill(database)
    exported = export(database)
    row = exported.rows[0]
    lost = ExportedRow(table=row.table, values=row.values | {"model_revision_id": "Model/x@9"})

    with pytest.raises(RefusedExportError, match="names Model/x@9"):
        take(other, msgspec.structs.replace(exported, rows=(lost,)))


def test_what_is_damaged_is_not_exported(database: Database) -> None:
    fill(database)
    with database.session() as session:
        row = session.scalars(select(RevisionRow).where(RevisionRow.name == "attached")).one()
        row.document = row.document | {"spec": {"engine": "paged"}}

    with pytest.raises(DamagedConfigError, match="EngineConfig/attached@1"):
        export(database)


def test_the_digest_over_all_is_that_of_a_backup(database: Database) -> None:
    fill(database)
    exported = export(database)
    with database.engine.connect() as connection:
        assert exported.digest == read_config_digest(connection).digest
    assert digest_over(exported.revisions) == exported.digest

"""Documents become numbered revisions that are never edited."""

import pytest

from controlplane.specs.kind import Kind, digest_of
from controlplane.specs.model import ModelSpec
from controlplane.specs.tenant import TenantSpec
from controlplane.store.database import Database
from controlplane.store.deployments import UnresolvedReferenceError
from controlplane.store.revisions import (
    Applied,
    apply_documents,
    find_latest,
    find_revision,
    list_latest,
    list_revisions,
    revision_label,
)
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_POLICY,
    MODEL,
    SERVICE,
    documents,
)


def apply(database: Database, *texts: str, reason: str = "", at: int = 1) -> list[Applied]:
    with database.session() as session:
        return apply_documents(
            session, documents(*texts), author="ann", reason=reason, clock=lambda: at
        )


def outcome(applied: list[Applied]) -> list[tuple[str, str]]:
    return [(each.label, each.change.value) for each in applied]


def test_a_new_document_is_revision_one(database: Database) -> None:
    [applied] = apply(database, MODEL, reason="first", at=7)

    assert (applied.kind, applied.label, applied.change) == (Kind.MODEL, "smollm2@1", "created")
    with database.reading() as session:
        revision = find_latest(session, Kind.MODEL, "smollm2")
    assert revision is not None
    assert (revision.author, revision.reason, revision.created_at_unix_ns) == ("ann", "first", 7)
    assert revision.digest == applied.digest == digest_of(revision.document)
    assert revision.spec(ModelSpec).artifact.path == "/models/smollm2.gguf"


def test_what_did_not_change_makes_no_revision(database: Database) -> None:
    apply(database, *SERVICE)

    again = apply(database, "# said again\n" + MODEL, *SERVICE[1:])

    assert {change for _, change in outcome(again)} == {"unchanged"}
    with database.reading() as session:
        assert [r.number for r in list_revisions(session, Kind.MODEL, "smollm2")] == [1]


def test_a_change_makes_the_next_revision_and_keeps_the_old_one(database: Database) -> None:
    apply(database, MODEL)
    [applied] = apply(database, MODEL.replace("smollm2.gguf", "other.gguf"), at=2)

    assert (applied.label, applied.change) == ("smollm2@2", "updated")
    with database.reading() as session:
        old = find_revision(session, Kind.MODEL, "smollm2", 1)
        history = list_revisions(session, Kind.MODEL, "smollm2")
    assert old is not None
    assert old.spec(ModelSpec).artifact.path == "/models/smollm2.gguf"
    assert [revision.label for revision in history] == ["smollm2@2", "smollm2@1"]


def test_going_back_to_an_old_text_is_a_new_revision_with_the_old_digest(
    database: Database,
) -> None:
    [first] = apply(database, MODEL)
    apply(database, MODEL.replace("smollm2.gguf", "other.gguf"))
    [third] = apply(database, MODEL)

    assert third.number == 3
    assert third.digest == first.digest


def test_the_same_name_in_two_kinds_is_two_documents(database: Database) -> None:
    apply(database, *SERVICE)

    with database.reading() as session:
        latest = [(revision.kind.value, revision.name) for revision in list_latest(session)]
        policies = list_latest(session, Kind.ADMISSION_POLICY)
    assert latest == [
        ("AdmissionPolicy", "chat"),
        ("Deployment", "chat"),
        ("EngineConfig", "attached"),
        ("Model", "smollm2"),
        ("SLOContract", "chat"),
    ]
    assert [policy.label for policy in policies] == ["chat@1"]


def test_only_the_latest_of_each_is_listed(database: Database) -> None:
    apply(database, MODEL, DESIGN_POLICY)
    apply(database, MODEL.replace("smollm2.gguf", "other.gguf"))

    with database.reading() as session:
        assert [r.label for r in list_latest(session)] == ["chat@1", "smollm2@2"]


def test_nothing_is_stored_when_one_document_cannot_be(database: Database) -> None:
    with pytest.raises(UnresolvedReferenceError) as raised:
        apply(database, MODEL, DEPLOYMENT)

    assert raised.value.deployment == "chat"
    assert raised.value.kind is Kind.ENGINE_CONFIG
    with database.reading() as session:
        assert list_latest(session) == []


def test_what_does_not_exist_is_none(database: Database) -> None:
    apply(database, MODEL)

    with database.reading() as session:
        assert find_latest(session, Kind.MODEL, "nope") is None
        assert find_revision(session, Kind.MODEL, "smollm2", 2) is None
        assert list_revisions(session, Kind.TENANT, "smollm2") == []


def test_a_spec_is_only_handed_out_as_what_it_is(database: Database) -> None:
    apply(database, MODEL)
    with database.reading() as session:
        revision = find_latest(session, Kind.MODEL, "smollm2")
    assert revision is not None

    with pytest.raises(TypeError, match="Model smollm2@1 is no TenantSpec"):
        revision.spec(TenantSpec)


def test_a_label_names_one_revision() -> None:
    assert revision_label("chat", 3) == "chat@3"

"""Deployments stand for exact revisions, and "what ran at 02:14" has one answer."""

import pytest

from controlplane.store.database import Database
from controlplane.store.deployments import (
    DeploymentChange,
    DesiredDeployment,
    find_change_at,
    find_deployment,
    list_changes,
    list_deployments,
    set_observed_generation,
)
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.revisions import apply_documents
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    SERVICE,
    documents,
)

OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")


def apply(database: Database, *texts: str, at: int = 1, author: str = "ann") -> None:
    with database.session() as session:
        apply_documents(session, documents(*texts), author=author, reason="", clock=lambda: at)


def chat(database: Database) -> DesiredDeployment:
    with database.reading() as session:
        deployment = find_deployment(session, "chat")
    assert deployment is not None
    return deployment


def changes(database: Database) -> list[DeploymentChange]:
    with database.reading() as session:
        return list_changes(session, "chat")


def labels(revisions: DesiredRevisions) -> tuple[str, str, str, str | None]:
    return (
        revisions.model.label,
        revisions.engine_config.label,
        revisions.policy.label,
        revisions.contract.label if revisions.contract else None,
    )


def test_names_are_resolved_to_revisions(database: Database) -> None:
    apply(database, *SERVICE, at=5)

    deployment = chat(database)

    assert labels(deployment.revisions) == ("smollm2@1", "attached@1", "chat@1", "chat@1")
    assert (deployment.generation, deployment.observed_generation) == (1, 0)
    assert (deployment.spec.replicas, deployment.spec.launcher) == (2, "local")
    assert deployment.updated_at_unix_ns == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OTHER_MODEL, ("smollm2@2", "attached@1", "chat@1", "chat@1")),
        (
            ENGINE.replace("model: smollm2", "model: x"),
            ("smollm2@1", "attached@2", "chat@1", "chat@1"),
        ),
        (DESIGN_POLICY.replace("64", "65"), ("smollm2@1", "attached@1", "chat@2", "chat@1")),
        (
            DESIGN_CONTRACT.replace("300ms", "400ms"),
            ("smollm2@1", "attached@1", "chat@1", "chat@2"),
        ),
    ],
)
def test_a_bare_name_follows_the_latest_revision(
    database: Database, text: str, expected: tuple[str, ...]
) -> None:
    apply(database, *SERVICE)
    apply(database, text, at=2)

    deployment = chat(database)

    assert labels(deployment.revisions) == expected
    assert deployment.generation == 2


def test_a_pinned_name_stays_where_it_is(database: Database) -> None:
    apply(database, *SERVICE[:-1])
    apply(database, DEPLOYMENT.replace("model: smollm2", "model: smollm2@1"))
    apply(database, OTHER_MODEL)

    assert labels(chat(database).revisions)[0] == "smollm2@1"
    assert chat(database).generation == 1


def test_applying_the_same_again_moves_nothing(database: Database) -> None:
    apply(database, *SERVICE)
    apply(database, *SERVICE, at=9)

    assert chat(database).generation == 1
    assert chat(database).updated_at_unix_ns == 1
    assert len(changes(database)) == 1


def test_several_changes_at_once_are_one_generation(database: Database) -> None:
    apply(database, *SERVICE)
    apply(database, OTHER_MODEL, DESIGN_POLICY.replace("64", "65"), DEPLOYMENT.replace("2}", "3}"))

    deployment = chat(database)

    assert deployment.generation == 2
    assert deployment.spec.replicas == 3
    assert labels(deployment.revisions)[:3] == ("smollm2@2", "attached@1", "chat@2")


def test_a_change_of_replicas_is_a_change_too(database: Database) -> None:
    apply(database, *SERVICE)
    apply(database, DEPLOYMENT.replace("replicas: 2", "replicas: 0"))

    assert chat(database).generation == 2
    assert chat(database).spec.replicas == 0


def test_a_contract_can_be_taken_away(database: Database) -> None:
    apply(database, *SERVICE)
    apply(database, DEPLOYMENT.replace(" contract: chat,", ""))

    assert chat(database).revisions.contract is None


def test_what_nobody_refers_to_moves_no_deployment(database: Database) -> None:
    apply(database, *SERVICE)
    apply(database, MODEL.replace("name: smollm2", "name: unused"))

    assert chat(database).generation == 1


def test_what_ran_at_a_time_has_one_answer(database: Database) -> None:
    apply(database, *SERVICE, at=100)
    apply(database, OTHER_MODEL, at=200, author="bob")
    apply(database, DEPLOYMENT.replace("replicas: 2", "replicas: 5"), at=300)

    def ran_at(instant: int) -> tuple[str, str, int] | None:
        with database.reading() as session:
            change = find_change_at(session, "chat", instant)
        if change is None:
            return None
        return change.revisions.model.label, change.revisions.deployment.label, change.generation

    assert ran_at(99) is None
    assert ran_at(100) == ran_at(199) == ("smollm2@1", "chat@1", 1)
    assert ran_at(200) == ran_at(299) == ("smollm2@2", "chat@1", 2)
    assert ran_at(10**18) == ("smollm2@2", "chat@2", 3)
    assert [(c.generation, c.author) for c in changes(database)] == [
        (3, "ann"),
        (2, "bob"),
        (1, "ann"),
    ]


def test_the_observed_generation_only_grows(database: Database) -> None:
    apply(database, *SERVICE)
    apply(database, OTHER_MODEL)

    for generation in (2, 1):
        with database.session() as session:
            set_observed_generation(session, "chat", generation)

    assert chat(database).observed_generation == 2


def test_deployments_are_listed_by_name(database: Database) -> None:
    apply(database, *SERVICE, DEPLOYMENT.replace("name: chat}", "name: another}"))

    with database.reading() as session:
        names = [deployment.name for deployment in list_deployments(session)]
        missing = find_deployment(session, "nope")
    assert names == ["another", "chat"]
    assert missing is None

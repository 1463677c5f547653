"""What was read once is not read again, and never taken for something else."""

from pathlib import Path

import pytest
from sqlalchemy import event

from controlplane.store.database import Database
from controlplane.store.deployments import list_readable_deployments, move_deployments
from controlplane.store.revisions import apply_documents
from tests.controlplane.config_documents import SERVICE, config_database, documents

_NUM = 40


def _many() -> list[str]:
    *shared, one = SERVICE
    return [*shared, *(one.replace("name: chat}", f"name: chat-{n}}}", 1) for n in range(_NUM))]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = config_database(tmp_path)
    with made.session() as session:
        apply_documents(session, documents(*_many()), author="ann", reason="first")
    return made


def test_reading_and_moving_deployments_asks_no_more_of_the_database_for_more_of_them(
    database: Database,
) -> None:
    statements: list[str] = []

    def count(*told: object) -> None:
        statements.append(str(told[2]))

    event.listen(database.engine, "before_cursor_execute", count)
    with database.reading() as session:
        found, unreadable = list_readable_deployments(session)
    assert (len(found), unreadable) == (_NUM, {})
    assert len(statements) < _NUM
    assert not any("revisions.document" in each for each in statements)

    statements.clear()
    with database.session() as session:
        assert move_deployments(session, author="ann", reason="again", now_unix_ns=1) == []
    assert len(statements) < _NUM


def test_a_revision_whose_id_was_taken_back_is_not_mistaken_for_the_one_that_got_it(
    database: Database,
) -> None:
    policy = SERVICE[3].replace("max_queue: 64", "max_queue: 65")
    with database.session() as session:
        attempt = session.begin_nested()
        apply_documents(session, documents(policy), author="ann", reason="tried")
        assert list_readable_deployments(session)[0][0].revisions.policy.reason == "tried"
        attempt.rollback()
        apply_documents(session, documents(policy), author="bob", reason="meant")

    with database.reading() as session:
        moved = list_readable_deployments(session)[0][0].revisions.policy

    assert (moved.number, moved.author, moved.reason) == (2, "bob", "meant")

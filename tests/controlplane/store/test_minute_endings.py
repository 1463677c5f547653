"""How the requests of the last minutes ended, by deployment and tenant."""

from collections.abc import Iterator

import pytest

from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import add_counts
from controlplane.store.database import Database
from controlplane.store.minute_endings import EndingKey, count_endings
from controlplane.store.request_rows import CountKey
from tests.databases import Databases

MINUTE = 1_790_000_040


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def test_classes_and_contracts_are_summed_and_older_minutes_left_out(database: Database) -> None:
    rejected, tokens = "disposition.rejected", "tokens.input"
    counts = {
        CountKey(MINUTE, "chat", "interactive", "acme", "chat@1", rejected): 3,
        CountKey(MINUTE, "chat", "batch", "acme", "chat@2", rejected): 4,
        CountKey(MINUTE, "chat", "interactive", "acme", "chat@1", "offered"): 9,
        CountKey(MINUTE, "chat", "interactive", "acme", "chat@1", "in_contract.total"): 2,
        CountKey(MINUTE, "chat", "interactive", "acme", "chat@1", tokens): 900,
        CountKey(MINUTE, "", "", "", "", rejected): 5,
        CountKey(MINUTE - 60, "chat", "interactive", "acme", "chat@1", rejected): 7,
    }
    with database.session() as session:
        add_counts(session, counts)
    with database.reading() as session:
        assert count_endings(session, MINUTE) == {
            EndingKey(MINUTE, "chat", "acme", rejected): 7,
            EndingKey(MINUTE, "chat", "acme", "offered"): 9,
            EndingKey(MINUTE, "chat", "acme", "in_contract.total"): 2,
            EndingKey(MINUTE, "chat", "acme", tokens): 900,
        }

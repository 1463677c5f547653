"""What people were told is known after a restart."""

from collections.abc import Iterator

import pytest

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_json import alert_as_json, alert_from_json
from controlplane.slo.alert_windows import Severity
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.told_alerts import Group, Told, keep_told, read_told
from tests.databases import Databases

ALERT = Alert(
    subject=AlertSubject(
        name="PilothouseBudgetBurn",
        severity=Severity.PAGE,
        grade="page_quick",
        deployment="chat",
        request_class="interactive",
        objective="ttft",
    ),
    source=AlertSource.CONTROL_PLANE,
    summary="The error budget burns",
    description="20 % missed it.",
    started_at_unix_ns=1_790_000_000_123_456_789,
    contract_revision="chat@7",
)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.CONFIG)
    yield opened
    opened.close()


def _read(database: Database, notifier: str) -> dict[Group, Told]:
    with database.reading() as session:
        return read_told(session, notifier)


def test_what_was_told_is_read_as_it_was_told(database: Database) -> None:
    told = Told(at_unix_ns=1_790_000_001_000_000_007, alerts=(ALERT,))
    with database.session() as session:
        keep_told(session, "oncall", "chat", told)
        keep_told(session, "oncall", None, Told(at_unix_ns=5, alerts=()))
        keep_told(session, "team", "chat", Told(at_unix_ns=6, alerts=()))
    assert _read(database, "oncall") == {"chat": told, None: Told(at_unix_ns=5, alerts=())}


def test_what_a_release_told_that_kept_no_team_is_read() -> None:
    told = alert_as_json(ALERT)
    del told["team"]
    assert alert_from_json(told) == ALERT


def test_what_is_told_again_takes_its_place_and_what_is_over_goes(database: Database) -> None:
    for at in (1, 2):
        with database.session() as session:
            keep_told(session, "oncall", "chat", Told(at_unix_ns=at, alerts=(ALERT,)))
    assert _read(database, "oncall")["chat"].at_unix_ns == 2
    with database.session() as session:
        keep_told(session, "oncall", "chat", None)
    assert _read(database, "oncall") == {}

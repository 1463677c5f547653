"""How promises stand by the control plane's own counts."""

import json
from collections.abc import Iterator

import pytest

from controlplane.slo.alert_windows import DAY, HOUR, MINUTE
from controlplane.slo.promised import Promise, promises_of
from controlplane.slo.reading import read_standings
from controlplane.slo.standing import Standing
from controlplane.slo.state import SLOState
from controlplane.specs.contract import SLOContractSpec
from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import add_counts
from controlplane.store.database import Database
from controlplane.store.request_rows import CountKey
from controlplane.store.series import MinuteSample, add_samples
from tests.databases import Databases

NOW = 1_790_000_000 // HOUR * HOUR + 17 * MINUTE + 30
SPEC = SLOContractSpec.model_validate_json(
    json.dumps(
        {
            "boundary": "server",
            "window": "30d",
            "classes": {
                "interactive": {
                    "objectives": [{"signal": "ttft", "at_most": "300ms", "for": "99%"}]
                }
            },
        }
    )
)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def _judge(database: Database, age_seconds: int, good: int, total: int) -> None:
    minute = (NOW - age_seconds) // MINUTE * MINUTE
    names = (minute, "chat", "interactive", "acme", "chat@1")
    with database.session() as session:
        add_counts(session, {CountKey(*names, "objective.ttft.good"): good})
        add_counts(session, {CountKey(*names, "objective.ttft.total"): total})


def _hear(database: Database, age_seconds: int = 60, deployment: str = "chat") -> None:
    """A gateway tells of `deployment`, as well as of itself."""
    minute = (NOW - age_seconds) // MINUTE * MINUTE
    with database.session() as session:
        samples = [
            MinuteSample(minute_unix=minute, deployment=name, num_gateways=1, active=0, queued=0)
            for name in ("", deployment)
        ]
        add_samples(session, samples)


def _promises() -> list[Promise]:
    return list(promises_of("chat", "chat@2", SPEC))


def _standing(database: Database) -> Standing:
    with database.reading() as session:
        (found,) = read_standings(session, _promises(), NOW)
    return found


def test_a_burn_of_twenty_for_an_hour_breaches_with_the_quick_page_first(
    database: Database,
) -> None:
    _hear(database)
    for age in range(0, HOUR, MINUTE):
        _judge(database, age, good=80, total=100)
    standing = _standing(database)
    assert standing.state is SLOState.BREACHING
    assert standing.burn(HOUR) == pytest.approx(20)
    assert standing.firing[0].threshold.grade.name == "page_quick"
    assert standing.remaining_share == pytest.approx(-19)
    assert standing.seconds_left == 0


def test_what_was_judged_before_the_window_is_none_of_it(database: Database) -> None:
    _hear(database)
    _judge(database, 2 * HOUR, good=0, total=1000)
    _judge(database, 10, good=1000, total=1000)
    standing = _standing(database)
    assert standing.burn(HOUR) == 0
    assert standing.burn(6 * HOUR) == pytest.approx(50)
    assert standing.counts_by_window[6 * HOUR].total == 2000


def test_an_old_revision_counts_in_the_budget_as_the_one_that_was_promised_then(
    database: Database,
) -> None:
    _hear(database)
    _judge(database, 20 * DAY, good=99, total=100)  # judged by chat@1, and chat@2 is in force
    standing = _standing(database)
    assert standing.budget.total == 100
    assert standing.remaining_share == pytest.approx(0)


def test_without_requests_there_is_too_little_data_and_without_gateways_none(
    database: Database,
) -> None:
    assert _standing(database).state is SLOState.NO_DATA
    _hear(database)
    standing = _standing(database)
    assert standing.state is SLOState.INSUFFICIENT_DATA
    assert standing.remaining_share is None
    _judge(database, 10, good=100, total=100)
    assert _standing(database).state is SLOState.OK


def test_gateways_that_fell_silent_leave_no_data_and_no_alert(database: Database) -> None:
    _hear(database, age_seconds=10 * MINUTE)
    _judge(database, 10 * MINUTE, good=0, total=100)
    standing = _standing(database)
    assert standing.state is SLOState.NO_DATA
    assert standing.firing == ()


def test_a_budget_that_is_overspent_is_not_well_though_nothing_burns(database: Database) -> None:
    _hear(database)
    _judge(database, 20 * DAY, good=90, total=100)
    _judge(database, 10, good=100, total=100)
    standing = _standing(database)
    assert standing.firing == ()
    assert standing.state is SLOState.BREACHING


def test_a_gateway_that_serves_others_does_not_see_the_deployment(database: Database) -> None:
    _hear(database, deployment="batch")
    assert _standing(database).state is SLOState.NO_DATA
    _judge(database, 30, good=100, total=100)  # whoever counts it, sees it
    assert _standing(database).state is SLOState.OK


def test_a_young_deployment_has_only_its_own_time_of_the_budget(database: Database) -> None:
    assert _standing(database).covered_seconds is None
    _hear(database, age_seconds=3 * DAY)
    assert _standing(database).covered_seconds == pytest.approx(3 * DAY, abs=MINUTE)
    _hear(database, age_seconds=40 * DAY)
    assert _standing(database).covered_seconds == 30 * DAY

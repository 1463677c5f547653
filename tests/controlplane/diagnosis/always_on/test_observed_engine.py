"""A server that is only observed shows by its page alone whether it lives."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.replica_history import ReplicaHistory
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.turns import Target
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.operator.page_look import PageLook, Silence
from controlplane.store.incident import IncidentState
from tests.controlplane.diagnosis.always_on.metrics_server import (
    MetricsServer,
    serving,
    vllm_page,
)
from tests.controlplane.diagnosis.always_on.watched_fleet import (
    START_NS,
    WatchedFleet,
    replica,
    watched_fleet,
)

QUICK = AlwaysOnSettings(scrape_deadline_seconds=0.1)


@pytest.fixture
def engine() -> Iterator[MetricsServer]:
    with serving() as server:
        server.page = vllm_page(running=3, waiting=1, kv=0.4)
        yield server


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[WatchedFleet]:
    with watched_fleet(tmp_path, BUILT_IN_RULES, QUICK) as fleet:
        yield fleet


def observe(fleet: WatchedFleet, address: str) -> None:
    fleet.runs(replace(replica("seen-1", f"http://{address}", "seen"), is_observed_only=True))


def look_of(fleet: WatchedFleet) -> PageLook:
    look = fleet.observed.find_look("seen-1")
    assert look is not None
    return look


def test_what_its_page_says_is_kept_with_its_time(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    observe(fleet, engine.address)
    fleet.pass_for(10)
    look = look_of(fleet)
    assert (look.num_running, look.num_waiting, look.max_num_seqs) == (3, 1, None)
    assert look.page == f"http://{engine.address}/metrics"
    assert look.page_at_unix_ns == START_NS + 5 * 10**9
    assert (look.is_answered, look.why_unreachable()) == (True, None)


def test_one_that_takes_calls_and_answers_none_is_lost_after_ten_seconds_and_hangs(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    observe(fleet, engine.address)
    fleet.pass_for(30)
    engine.stalls.set()
    fleet.pass_for(10)
    assert look_of(fleet).why_unreachable() is None, "it may have been a moment"
    fleet.pass_for(5)
    assert look_of(fleet).silence is Silence.TAKEN
    why = look_of(fleet).why_unreachable()
    assert why is not None
    assert "no answer within 0.1 s" in why

    fleet.pass_for(25)
    (incident,) = fleet.incidents()
    assert (incident.mechanism, incident.state) == ("engine.hung", IncidentState.OPEN)
    assert incident.since_unix_ns == START_NS + 30 * 10**9

    engine.stalls.clear()
    engine.may_go.set()
    fleet.pass_for(120)
    assert look_of(fleet).is_answered
    (incident,) = fleet.incidents()
    assert incident.state is IncidentState.RESOLVED


def test_one_that_never_answered_is_silent_since_it_was_first_asked() -> None:
    target = Target(replica_id="a", deployment="d", address="a:1", is_observed_only=True)
    page = ScrapedPage(target=target, place="a:1", text=None, silence=Silence.TAKEN, why="late")
    history = ReplicaHistory("a", "a:1", PageReaders(), is_observed_only=True)
    history.take(page, 100.0)
    history.take(replace(page, is_resting=True), 105.0)
    look = history.look()
    assert look is not None
    assert look.why_unreachable() is None, "nobody asked a second time"
    history.take(page, 110.0)
    look = history.look()
    assert look is not None
    assert look.why_unreachable() is not None
    assert (history.silent_seconds(112.0), look.page_at_unix_ns) == (12.0, None)


def test_one_whose_health_page_is_answered_is_not_said_to_hang(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    observe(fleet, engine.address)
    fleet.pass_for(30)
    engine.stalls.set()
    engine.healthy.set()
    fleet.pass_for(45)
    assert look_of(fleet).why_unreachable() is not None
    assert fleet.incidents() == []


def test_one_whose_port_refuses_is_gone_and_does_not_hang(fleet: WatchedFleet) -> None:
    with serving() as server:
        server.page = vllm_page(running=3)
        observe(fleet, server.address)
        fleet.pass_for(30)
    fleet.pass_for(45)
    look = look_of(fleet)
    assert look.silence is Silence.REFUSED
    assert "its process is gone" in str(look.why_unreachable())
    (incident,) = fleet.incidents()
    assert (incident.deployment, incident.mechanism, incident.confidence) == (
        "seen",
        "engine.gone",
        "certain",
    )
    assert incident.since_unix_ns == START_NS + 30 * 10**9


def test_one_that_is_killed_while_it_hangs_hangs_no_more_and_is_gone(fleet: WatchedFleet) -> None:
    with serving() as server:
        server.page = vllm_page(running=3, waiting=1, kv=0.4)
        observe(fleet, server.address)
        fleet.pass_for(30)
        server.stalls.set()
        fleet.pass_for(35)
        (hung,) = fleet.incidents()
        assert (hung.mechanism, hung.state) == ("engine.hung", IncidentState.OPEN)
    fleet.pass_for(45)
    states = {each.mechanism: each.state for each in fleet.incidents()}
    assert states == {"engine.hung": IncidentState.RESOLVED, "engine.gone": IncidentState.OPEN}


def test_one_that_answers_and_shows_no_metrics_is_there(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    engine.page = ""
    observe(fleet, engine.address)
    fleet.pass_for(60)
    look = look_of(fleet)
    assert (look.is_answered, look.page_at_unix_ns) == (True, None)


def test_replicas_that_are_sent_requests_are_not_judged_by_their_pages(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    fleet.runs(replica("seen-1", engine.address, "seen"))
    fleet.pass_for(10)
    assert fleet.observed.find_look("seen-1") is None

"""An engine that is killed under load: what it suffered from before is not what it is now."""

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.store.incident import IncidentState
from controlplane.store.incident_lists import find_incident
from tests.controlplane.diagnosis.always_on.metrics_server import MetricsServer, serving, vllm_page
from tests.controlplane.diagnosis.always_on.watched_fleet import (
    START_NS,
    WatchedFleet,
    replica,
    watched_fleet,
)
from tests.controlplane.slo.told_alerts import Told, burn

_S = 10**9


class _Thrashing:
    """Requests are thrown out for room, all the time."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._num = 0

    def go_on(self) -> None:
        """Five seconds."""
        self._num += 1
        self._server.page = vllm_page(
            running=20 + self._num % 3,
            waiting=9 + self._num % 4,
            kv=round(0.995 + 0.001 * (self._num % 4), 4),
            preemptions=20 * self._num,
            prompt=9000 * self._num,
            generated=1500 * self._num,
            finished=3 * self._num,
        )


def test_its_incident_stays_until_it_is_back_beside_that_it_is_gone(tmp_path: Path) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        with serving() as server:
            fleet.runs(replica("chat-1", server.address))
            fleet.pass_for(60, _Thrashing(server).go_on)
            (before,) = fleet.incidents()
        fleet.pass_for(100)
        found = {each.incident_id: each for each in fleet.incidents()}
        last = fleet.diagnoses.find("chat")
    was = found.pop(before.incident_id)
    assert (was.state, was.mechanism) == (IncidentState.OPEN, before.mechanism)
    (gone,) = found.values()
    assert (gone.state, gone.mechanism, gone.confidence) == (
        IncidentState.OPEN,
        "engine.gone",
        "certain",
    )
    assert last is not None
    assert (last.mechanism, last.confidence) == ("engine.gone", "certain")


def test_it_opens_one_incident_within_a_minute_that_ends_once_it_is_back(tmp_path: Path) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        with serving() as server:
            server.page = vllm_page(running=2)
            fleet.runs(replica("chat-1", server.address))
            fleet.pass_for(60)
        assert fleet.incidents() == []
        fleet.pass_for(55)
        (incident,) = fleet.incidents()
        assert (incident.mechanism, incident.since_unix_ns) == ("engine.gone", START_NS + 60 * _S)
        assert _details(fleet, incident.incident_id) == {"chat-1"}
        with serving(at=server.address) as again:
            again.page = vllm_page(running=2)
            fleet.pass_for(120)
        (incident,) = fleet.incidents()
        assert incident.state is IncidentState.RESOLVED


def test_a_restart_behind_the_same_address_opens_none(tmp_path: Path) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        with serving() as server:
            server.page = vllm_page(running=2)
            fleet.runs(replica("chat-1", server.address))
            fleet.pass_for(60)
        fleet.pass_for(15)
        with serving(at=server.address) as again:
            again.page = vllm_page(running=2)
            fleet.pass_for(120)
        assert fleet.incidents() == []


@pytest.mark.parametrize("state", ["draining", "starting"])
def test_one_that_is_to_end_or_has_yet_to_serve_is_not_missed(tmp_path: Path, state: str) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        with serving() as server:
            server.page = vllm_page(running=2)
            fleet.runs(replica("chat-1", server.address))
            fleet.pass_for(60)
            fleet.runs(replace(replica("chat-1", server.address), state=state))
            fleet.pass_for(10)
        fleet.pass_for(120)
        assert fleet.incidents() == []


def test_one_of_two_is_named_and_an_incident_of_the_other_goes_its_own_way(tmp_path: Path) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet, serving() as other:
        other.page = vllm_page(running=2)
        with serving() as server:
            server.page = vllm_page(running=2)
            fleet.runs(replica("chat-1", server.address), replica("chat-2", other.address))
            fleet.pass_for(60)
        fleet.pass_for(60)
        (incident,) = fleet.incidents()
        assert incident.mechanism == "engine.gone"
        assert _details(fleet, incident.incident_id) == {"chat-1"}


def test_while_an_alert_fires_the_incident_of_a_deployment_that_is_gone_is_open(
    tmp_path: Path,
) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        with serving() as server:
            fleet.runs(replica("chat-1", server.address))
            fleet.pass_for(60, _Thrashing(server).go_on)
            (found,) = fleet.incidents()
            told, second = Told(fleet.config_db), START_NS // _S + 60
            told.at(second, burn(since=second - 10))
            fleet.runs()
            fleet.pass_for(120)
            (fires,) = fleet.incidents()
            assert (fires.incident_id, fires.state) == (found.incident_id, IncidentState.OPEN)
            told.at(second + 125, burn(since=second - 10, until=second + 124))
            fleet.pass_for(15)
        (over,) = fleet.incidents()
        assert over.state is IncidentState.RESOLVED


def _details(fleet: WatchedFleet, incident_id: str) -> set[str]:
    """Which replicas its findings are of."""
    with fleet.config_db.reading() as session:
        found = find_incident(session, incident_id)
    assert found is not None
    return {str(each.finding["detail"]) for each in found.findings}

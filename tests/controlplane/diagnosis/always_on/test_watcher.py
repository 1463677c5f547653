"""Every deployment is looked at all the time: what is found opens an incident, which ends."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import DataError

from controlplane.diagnosis.always_on.diagnoses import Diagnoses, LastDiagnosis
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules import BUILT_IN_RULES, CACHE
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from controlplane.store.incident import IncidentState
from controlplane.store.replicas import ReplicaState, add_replica, move_replica
from dataplane.engine import ReplicaSpec
from dataplane.report import ReplicaReport
from tests.controlplane.diagnosis.always_on.metrics_server import (
    MetricsServer,
    serving,
    vllm_page,
)
from tests.controlplane.diagnosis.always_on.watched_fleet import replica, watched_fleet
from tests.controlplane.quiet_gateway import quiet_report


@pytest.fixture
def engine() -> Iterator[MetricsServer]:
    with serving() as server:
        yield server


class Engine:
    """Counts on, at the rates that it is told."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._totals = {"preemptions": 0.0, "prompt": 0.0, "generated": 0.0, "finished": 0.0}
        self.gauges: dict[str, float] = {}
        self.rates: dict[str, float] = {}
        self._num_steps = 0

    def go_on(self) -> None:
        """Five seconds. Nothing of an engine at work stands still."""
        self._num_steps += 1
        for name, rate in self.rates.items():
            self._totals[name] += 5 * rate
        shift = (self._num_steps * 7) % 5 / 5
        moved = {
            "running": self.gauges["running"] + round(4 * shift),
            "waiting": self.gauges["waiting"] and self.gauges["waiting"] + round(5 * shift),
            "kv": round(self.gauges["kv"] + 0.004 * shift, 4),
        }
        self._server.page = vllm_page(**moved, **self._totals)

    def thrash(self) -> None:
        self.gauges = {"running": 20, "waiting": 9, "kv": 0.995}
        self.rates = {"preemptions": 4, "prompt": 900, "generated": 300, "finished": 1}

    def be_well(self) -> None:
        self.gauges = {"running": 6, "waiting": 0, "kv": 0.4}
        self.rates = {"preemptions": 0, "prompt": 900, "generated": 600, "finished": 2}


def test_thrash_opens_an_incident_that_says_since_when_and_ends_once_it_is_not_seen(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    with watched_fleet(tmp_path, CACHE) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        simulated.be_well()
        fleet.pass_for(60, simulated.go_on)
        assert fleet.incidents() == []

        turned_ns = fleet.now_ns
        simulated.thrash()
        fleet.pass_for(60, simulated.go_on)
        (incident,) = fleet.incidents()
        assert (incident.deployment, incident.mechanism) == ("chat", "cache.thrash")
        assert incident.state is IncidentState.OPEN
        assert incident.since_unix_ns is not None
        assert abs(incident.since_unix_ns - turned_ns) <= 15 * 10**9

        simulated.be_well()
        fleet.pass_for(200, simulated.go_on)
        (incident,) = fleet.incidents()
        assert incident.state is IncidentState.RESOLVED


def test_the_last_answer_is_kept_with_its_time_and_the_figures_of_the_page(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.thrash()
    with watched_fleet(tmp_path, CACHE) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        fleet.pass_for(60, simulated.go_on)
        last = fleet.diagnoses.find("chat")
        assert last is not None
        assert (last.mechanism, last.num_replicas, last.num_telling) == ("cache.thrash", 1, 1)
        assert fleet.now_ns - last.at_unix_ns <= 20 * 10**9
        first = last.diagnosis["findings"][0]
        newest = {value["name"]: value["age_seconds"] for value in first["values"]}
        assert "vllm:num_preemptions_total" in newest
        assert all(age <= 20 for age in newest.values())


def test_an_engine_that_falls_silent_is_not_judged_by_what_it_said_before(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.thrash()
    with watched_fleet(tmp_path, CACHE) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        fleet.pass_for(60, simulated.go_on)
        engine.page = ""
        fleet.pass_for(120)
        last = fleet.diagnoses.find("chat")
        assert last is not None
        assert (last.num_telling, "404" in last.silent["chat-1"]) == (0, True)
        assert last.mechanism != "cache.thrash"
        (incident,) = fleet.incidents()
        assert incident.state is IncidentState.OPEN, "nothing was seen of an end either"


def test_a_replica_that_never_answers_delays_nobody(engine: MetricsServer, tmp_path: Path) -> None:
    simulated = Engine(engine)
    simulated.thrash()
    settings = AlwaysOnSettings(scrape_deadline_seconds=0.05)
    with serving() as dead, watched_fleet(tmp_path, CACHE, settings) as fleet:
        dead.stalls.set()
        fleet.runs(replica("chat-1", engine.address), replica("chat-2", dead.address))
        fleet.pass_for(60, simulated.go_on)
        last = fleet.diagnoses.find("chat")
        assert last is not None
        assert (last.num_replicas, last.num_telling) == (2, 1)
        assert "no answer within 0.05 s" in last.silent["chat-2"]
        assert last.mechanism == "cache.thrash"
        assert len(dead.asked) < 4, "who has shown no page is asked ever more rarely"


def test_a_rule_that_fails_is_named_and_the_others_are_heard(
    engine: MetricsServer, tmp_path: Path
) -> None:
    def fail(window: Window) -> Verdict | None:
        raise KeyError("no such signal")

    broken: Rule = replace(CACHE[0], id="own-broken", judge=fail)
    simulated = Engine(engine)
    simulated.thrash()
    with watched_fleet(tmp_path, (broken, *CACHE)) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        fleet.pass_for(60, simulated.go_on)
        last = fleet.diagnoses.find("chat")
        assert last is not None
        assert (last.mechanism, last.failed_rules) == ("cache.thrash", ("own-broken",))
        (fault,) = fleet.guard.faults
        assert (fault.rule_id, fault.error) == ("own-broken", "KeyError: 'no such signal'")


def test_incidents_of_what_runs_no_more_end_and_its_answer_is_forgotten(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.thrash()
    with watched_fleet(tmp_path, CACHE) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        fleet.pass_for(60, simulated.go_on)
        fleet.runs()
        fleet.pass_for(120)
        (incident,) = fleet.incidents()
        assert incident.state is IncidentState.RESOLVED
        assert fleet.diagnoses.find("chat") is None


def test_an_incident_of_an_earlier_control_plane_ends_like_its_own(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.thrash()
    with watched_fleet(tmp_path, CACHE) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        fleet.pass_for(60, simulated.go_on)
    simulated.be_well()
    with watched_fleet(tmp_path, CACHE) as fleet:
        fleet.now_ns += 90 * 10**9
        fleet.runs(replica("chat-1", engine.address), replica("other-1", engine.address, "other"))
        fleet.pass_for(45, simulated.go_on)
        (incident,) = fleet.incidents()
        assert incident.state is IncidentState.RESOLVED


class _RefusesChat(Diagnoses):
    """Its data are what a database does not take."""

    def put(self, last: LastDiagnosis) -> None:
        if last.deployment == "chat":
            raise DataError("INSERT", {}, ValueError("value too long"))
        super().put(last)


def test_what_the_database_does_not_take_of_one_deployment_keeps_nobody_behind_it_waiting(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.be_well()
    with watched_fleet(tmp_path, CACHE, diagnoses=_RefusesChat()) as fleet:
        fleet.runs(replica("chat-1", engine.address), replica("other-1", engine.address, "other"))
        fleet.pass_for(15, simulated.go_on)
        assert fleet.diagnoses.find("other") is not None
        assert "value too long" in fleet.watcher.failed_looks["chat"]


def test_who_stops_does_not_wait_for_those_that_do_not_answer(tmp_path: Path) -> None:
    settings = AlwaysOnSettings(scrape_deadline_seconds=60.0)
    with serving() as dead, watched_fleet(tmp_path, CACHE, settings) as fleet:
        dead.stalls.set()
        fleet.runs(replica("chat-1", dead.address))
        passing = threading.Thread(target=fleet.watcher.do_pass)
        passing.start()
        while not dead.asked:
            passing.join(0.01)
        fleet.stopping.set()
        passing.join(30)
        assert not passing.is_alive()
        assert fleet.watcher.num_failed_scrapes == 0


def test_a_replica_that_was_given_up_as_hung_is_in_the_incident_though_another_is_well(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.be_well()
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        fleet.pass_for(30, simulated.go_on)
        with fleet.config_db.session() as session:
            spec = ReplicaSpec(
                replica_id="chat-1",
                deployment="chat",
                engine="paged",
                model_name="m",
                model_revision="m@1",
                engine_config_revision="paged@1",
                artifact="/models/m",
            )
            now = fleet.now_ns
            add_replica(
                session, spec, spec_digest="d", launcher="local", reason="wanted", now_unix_ns=now
            )
            for state, reason in (
                (ReplicaState.READY, "a probe generated a token"),
                (ReplicaState.DRAINING, "hung: 2 probes in a row failed and it took no step"),
            ):
                move_replica(session, "chat-1", state, reason=reason, now_unix_ns=now)
        fleet.runs(replica("chat-2", engine.address))
        fleet.pass_for(60, simulated.go_on)
        (incident,) = fleet.incidents()
        assert incident.mechanism == "engine.hung"
        fleet.pass_for(200, simulated.go_on)
        (incident,) = fleet.incidents()
        assert incident.state is IncidentState.RESOLVED


def test_in_a_fleet_that_takes_turns_an_answer_is_by_a_minute_of_some_replicas_and_says_so(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.be_well()
    names = [(f"{of}-{number}", of) for of in ("chat", "other") for number in range(5)]
    with watched_fleet(tmp_path, BUILT_IN_RULES, AlwaysOnSettings(max_scrapes=8)) as fleet:
        fleet.runs(*(replica(name, engine.address, of) for name, of in names))
        fleet.pass_for(55, simulated.go_on)
        assert fleet.diagnoses.all() == []
        fleet.pass_for(15, simulated.go_on)
        found = fleet.diagnoses.all()
    assert [(each.deployment, each.num_replicas, each.num_telling) for each in found] == [
        ("chat", 5, 2),
        ("other", 5, 2),
    ]
    assert {each.mechanism for each in found} == {"healthy"}


def test_an_engine_that_takes_calls_and_answers_none_hangs_where_gateways_meet_the_same(
    engine: MetricsServer, tmp_path: Path
) -> None:
    simulated = Engine(engine)
    simulated.be_well()
    settings = AlwaysOnSettings(scrape_deadline_seconds=0.05)
    with watched_fleet(tmp_path, BUILT_IN_RULES, settings) as fleet:
        fleet.runs(replica("chat-1", engine.address))

        def hear(error: str | None) -> None:
            link = ReplicaReport(
                replica_id="chat-1", is_connected=error is None, num_outstanding=2, error=error
            )
            fleet.observed.put_gateway(quiet_report(replicas=(link,)))

        def be_well() -> None:
            simulated.go_on()
            hear(None)

        fleet.pass_for(30, be_well)
        assert fleet.incidents() == []
        engine.stalls.set()
        fell_silent_ns = fleet.now_ns
        fleet.pass_for(45, lambda: hear("GET /health: no whole answer within 5 s"))
        (incident,) = fleet.incidents()
        assert (incident.mechanism, incident.confidence) == ("engine.hung", "likely")
        assert incident.since_unix_ns is not None
        assert abs(incident.since_unix_ns - fell_silent_ns) <= 10**9

"""Which silent replica is probed, and which of them is given up."""

import pytest

from controlplane.operator.settings import OperatorSettings
from controlplane.operator.vigil import Vigil
from dataplane.engine import EngineStats
from dataplane.report import GatewayReport, ReplicaReport
from tests.controlplane.quiet_gateway import quiet_report

SETTINGS = OperatorSettings(silent_seconds=20, max_failed_probes=2)


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def reports(num_steps: int | None) -> list[tuple[GatewayReport, float]]:
    stats = EngineStats(age_seconds=0.0, num_steps=num_steps)
    replica = ReplicaReport(
        replica_id="chat-1", is_connected=True, num_outstanding=0, error=None, stats=stats
    )
    return [(quiet_report(replicas=(replica,)), 0.1)]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def vigil(time: Time) -> Vigil:
    return Vigil(SETTINGS, time)


def test_a_silent_replica_is_due_after_a_while_and_a_probe_settles_it(
    vigil: Vigil, time: Time
) -> None:
    assert not vigil.is_due("chat-1")
    time.now += 21
    assert vigil.is_due("chat-1")
    vigil.note_alive("chat-1")
    assert not vigil.is_due("chat-1")


def test_a_replica_that_steps_is_never_due(vigil: Vigil, time: Time) -> None:
    assert not vigil.is_due("chat-1")
    for num_steps in range(100):
        time.now += 5
        vigil.read_reports(reports(num_steps))
        assert not vigil.is_due("chat-1")


def test_the_same_report_twice_is_no_sign_of_life(vigil: Vigil, time: Time) -> None:
    assert not vigil.is_due("chat-1")
    for _ in range(5):
        time.now += 5
        vigil.read_reports(reports(7))
    assert vigil.is_due("chat-1")


def test_an_engine_that_tells_no_steps_is_proven_by_probes(vigil: Vigil, time: Time) -> None:
    assert not vigil.is_due("chat-1")
    time.now += 21
    vigil.read_reports(reports(None))
    assert vigil.is_due("chat-1")


def test_one_failed_probe_is_no_hang_and_the_next_one_is_due_at_once(
    vigil: Vigil, time: Time
) -> None:
    assert vigil.find_hang("chat-1", "no token within 20 s") is None
    time.now += 0.1
    assert vigil.is_due("chat-1")
    hang = vigil.find_hang("chat-1", "no token within 20 s")
    assert hang is not None
    assert hang.startswith("hung: 2 probes in a row failed")
    assert "no token within 20 s" in hang


def test_a_step_between_two_failed_probes_forgives_the_first(vigil: Vigil, time: Time) -> None:
    vigil.is_due("chat-1")
    vigil.read_reports(reports(7))
    assert vigil.find_hang("chat-1", "late") is None
    vigil.read_reports(reports(8))
    assert not vigil.is_due("chat-1")
    assert vigil.find_hang("chat-1", "late") is None


def test_a_replica_that_ended_is_forgotten(vigil: Vigil, time: Time) -> None:
    vigil.is_due("chat-1")
    time.now += 21
    vigil.keep_only([])
    assert not vigil.is_due("chat-1")

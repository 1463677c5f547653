"""Gateways count their own requests; an engine that others call too has more than those."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.operator.observed import ObservedReplica
from dataplane.engine_metrics.signal import Signal
from dataplane.report import ReplicaReport
from tests.controlplane.diagnosis.always_on.metrics_server import MetricsServer, serving
from tests.controlplane.diagnosis.always_on.watched_fleet import (
    WatchedFleet,
    replica,
    watched_fleet,
)
from tests.controlplane.quiet_gateway import quiet_report

NUM_WAITING = 10


@pytest.fixture
def engine() -> Iterator[MetricsServer]:
    with serving() as server:
        yield server


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[WatchedFleet]:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        yield fleet


def _computing(server: MetricsServer) -> Callable[[], None]:
    """Both slots of a llama.cpp server are taken, others wait, and tokens come all the time."""
    steps = 0

    def go_on() -> None:
        nonlocal steps
        steps += 100
        server.page = (
            "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 2\n"
            f"# TYPE llamacpp:requests_deferred gauge\nllamacpp:requests_deferred {NUM_WAITING}\n"
            "# TYPE llamacpp:tokens_predicted_total counter\n"
            f"llamacpp:tokens_predicted_total {2 * steps}\n"
            f"# TYPE llamacpp:n_decode_total counter\nllamacpp:n_decode_total {steps}\n"
        )

    return go_on


def _found(fleet: WatchedFleet, server: MetricsServer, seen: ObservedReplica, ours: int) -> str:
    """The mechanism, after two minutes in which gateways have `ours` in flight."""
    go_on = _computing(server)

    def before_each() -> None:
        go_on()
        link = ReplicaReport(replica_id="chat-1", is_connected=True, num_outstanding=ours)
        links = () if seen.is_observed_only else (link,)
        fleet.observed.put_gateway(
            quiet_report(replicas=links, num_queued_by_deployment={"chat": 0})
        )

    fleet.runs(seen)
    fleet.pass_for(120, before_each)
    last = fleet.diagnoses.find("chat")
    assert last is not None
    return last.mechanism


def _at(server: MetricsServer) -> ObservedReplica:
    return replica("chat-1", f"http://{server.address}")


@pytest.mark.parametrize("ours", [0, 1])
def test_an_attached_engine_that_is_called_directly_too_holds_nothing_for_nobody(
    fleet: WatchedFleet, engine: MetricsServer, ours: int
) -> None:
    seen = replace(_at(engine), is_attached=True)
    assert _found(fleet, engine, seen, ours) == "queue.overload"
    assert "release.leak" not in [each.mechanism for each in fleet.incidents()]


def test_no_gateway_counts_for_one_that_is_only_observed(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    seen = replace(_at(engine), is_attached=True, is_observed_only=True)
    assert _found(fleet, engine, seen, 0) == "queue.overload"
    assert "gateways" not in str(fleet.diagnoses.find("chat"))


def test_one_that_only_gateways_call_leaks_what_they_do_not_wait_for(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    assert _found(fleet, engine, _at(engine), 0) == "release.leak"


def test_one_replica_that_is_only_observed_silences_no_gateway_about_the_others(
    fleet: WatchedFleet, engine: MetricsServer
) -> None:
    go_on = _computing(engine)
    own = replace(_at(engine), is_attached=True)
    watched = replace(own, replica_id="chat-2", is_observed_only=True)

    def before_each() -> None:
        go_on()
        link = ReplicaReport(
            replica_id="chat-1", is_connected=True, num_outstanding=4, held_back="its KV is full"
        )
        queued = {"chat": 7}
        fleet.observed.put_gateway(quiet_report(replicas=(link,), num_queued_by_deployment=queued))

    fleet.runs(own, watched)
    fleet.pass_for(30, before_each)
    seen = fleet.sight.seen("chat", fleet.now_ns / 1e9).window
    queue = seen.find(Signal.GATEWAY_QUEUED)
    assert queue is not None
    assert queue.last.value == 7
    held_back = seen.fact("replicas held back")
    assert held_back is not None
    assert held_back.raw == "chat-1: its KV is full"
    assert seen.find(Signal.GATEWAY_IN_FLIGHT) is None, "engines hold what others sent, too"
    assert "chat" in fleet.sight.suspects()

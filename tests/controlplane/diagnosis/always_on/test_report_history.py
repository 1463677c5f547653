"""What gateways report of a deployment, as signals and facts."""

from dataclasses import replace

from controlplane.diagnosis.always_on.report_history import (
    ReportedLoad,
    ReportHistory,
    Reports,
    read_reports,
)
from controlplane.diagnosis.sources.joining import join
from dataplane.engine import EngineStats
from dataplane.engine_metrics.signal import Signal
from dataplane.report import GatewayReport, ReplicaReport
from tests.controlplane.quiet_gateway import NOTHING, quiet_report


def _replica(replica_id: str, num_outstanding: int, **said: str | bool) -> ReplicaReport:
    return ReplicaReport(
        **{
            "replica_id": replica_id,
            "is_connected": True,
            "num_outstanding": num_outstanding,
            **said,
        }  # type: ignore[arg-type]
    )


def _read(*reports: GatewayReport, at: float = 10.0) -> ReportedLoad:
    load = read_reports(Reports(reports), {"chat-1", "chat-2"}, "chat", at)
    assert load is not None
    return load


def test_gateways_are_added_up_and_replicas_of_others_left_out() -> None:
    one = quiet_report(
        "g0",
        replicas=(_replica("chat-1", 5), _replica("other-1", 50)),
        num_queued_by_deployment={"chat": 2, "other": 9},
        oldest_queued_seconds=4.0,
    )
    two = quiet_report("g1", replicas=(_replica("chat-1", 3),), num_queued_by_deployment=None)
    load = _read(one, two)
    assert (load.num_outstanding, load.num_queued) == (8, 2)
    assert load.oldest_queued_seconds is None, "it may be of the other deployment"
    assert read_reports(Reports(()), {"chat-1"}, "chat", 1.0) is None


def test_of_one_deployment_alone_the_whole_gateway_speaks() -> None:
    report = quiet_report(
        replicas=(_replica("chat-1", 5),),
        num_queued_by_deployment={"chat": 2},
        oldest_queued_seconds=4.0,
    )
    history = ReportHistory()
    for at in (10.0, 15.0):
        history.take(_read(report, at=at))
    window = join([history.tell()])
    for signal, value in (
        (Signal.GATEWAY_IN_FLIGHT, 7.0),
        (Signal.GATEWAY_QUEUED, 2.0),
        (Signal.GATEWAY_OLDEST_QUEUED, 4.0),
        (Signal.GATEWAY_HELD_BACK_REPLICAS, 0.0),
    ):
        series = window.find(signal)
        assert series is not None
        assert series.values == (value, value), signal
    history.forget_before(12.0)
    assert history.tell().start == 15.0


def test_why_replicas_are_held_back_doubted_or_gone_is_told_and_calls_for_a_closer_look() -> None:
    assert not _read(quiet_report(replicas=(_replica("chat-1", 5),))).is_suspect
    history = ReportHistory()
    load = _read(
        quiet_report(
            replicas=(
                _replica("chat-1", 5, held_back="it is three times as slow as the others"),
                _replica("chat-2", 0, is_connected=False, error="refused"),
            )
        )
    )
    assert load.is_suspect
    history.take(load)
    said = {fact.key: fact.raw for fact in history.tell().facts}
    assert said == {
        "replicas_held_back": "chat-1: it is three times as slow as the others",
        "replicas_unreachable": "chat-2: refused",
    }


def _gateway(name: str, arrived: int, **serves: int) -> GatewayReport:
    counts = replace(NOTHING, arrived=arrived)
    return quiet_report(
        name, counts=counts, num_queued_by_deployment=serves, oldest_queued_seconds=float(arrived)
    )


def test_a_gateway_that_goes_comes_or_restarts_is_no_arrival_of_requests() -> None:
    history = ReportHistory()
    for at, reports in (
        (5.0, [_gateway("a", 1000, chat=0), _gateway("b", 5000, chat=0)]),
        (10.0, [_gateway("a", 1010, chat=0)]),
        (15.0, [_gateway("a", 1020, chat=0), _gateway("b", 5003, chat=0)]),
        (20.0, [_gateway("a", 4, chat=0), _gateway("b", 5005, chat=0), _gateway("c", 9, chat=0)]),
    ):
        history.take(_read(*reports, at=at))
    arrived = join([history.tell()]).find(Signal.GATEWAY_ARRIVED)
    assert arrived is not None
    assert arrived.increase == 10 + 10 + 4 + 5


def test_what_gateways_of_others_say_is_of_others() -> None:
    alone = _read(_gateway("a", 7, chat=0), _gateway("b", 900, other=3))
    assert alone.arrived == {"a-1": 7}
    assert alone.oldest_queued_seconds == 7.0
    mixed = _read(_gateway("a", 7, chat=0), _gateway("b", 900, chat=0, other=3))
    assert mixed.arrived == {}
    assert mixed.oldest_queued_seconds is None


def test_seats_that_engines_told_gateways_are_those_of_each_replica_once() -> None:
    def replica(replica_id: str, seats: int | None) -> ReplicaReport:
        stats = EngineStats(age_seconds=0.0, max_num_seqs=seats)
        return replace(_replica(replica_id, 1), stats=stats)

    both = (replica("chat-1", 2), replica("chat-2", 4))
    history = ReportHistory()
    history.take(_read(quiet_report("g0", replicas=both), quiet_report("g1", replicas=both)))
    seats = join([history.tell(is_telling_seats=True)]).find(Signal.SEATS)
    assert seats is not None
    assert seats.last.value == 6
    assert join([history.tell()]).find(Signal.SEATS) is None, "pages tell them"
    unknown = (replica("chat-1", 2), replica("chat-2", None))
    assert _read(quiet_report(replicas=unknown)).num_seats is None

"""Who stands still beside others that move, and who says that it is gone."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

STANDS = series(Signal.RUNNING, *[7] * 8, name="sglang:num_running_reqs", replica="pod-3")
MOVES = series(Signal.RUNNING, *[4, 5] * 4, name="sglang:num_running_reqs", replica="pod-1")


@pytest.mark.parametrize(
    ("said", "confidence"),
    [
        (told(60, pods_terminated="pod-3 at 10:14"), Confidence.CERTAIN),
        (Change(at=5, what="scaled in: pod-3 was taken away"), Confidence.LIKELY),
        (Change(at=5, what="scaled in: pod-2 was taken away"), None),
    ],
    ids=["known", "changed", "another"],
)
def test_figures_of_a_replica_that_is_gone_are_stale_and_a_change_alone_proves_it_not(
    said: tuple[Fact, ...] | Change, confidence: Confidence | None
) -> None:
    verdict = STALE.judge(window(STANDS, MOVES, said))
    assert (None if verdict is None else verdict.confidence) is confidence


@pytest.mark.parametrize(
    ("running", "in_flight", "confidence"),
    [(0, 0, Confidence.CERTAIN), (0, 7, None), (7, 7, None), (0, None, Confidence.LIKELY)],
    ids=["nobody has any", "somebody waits", "they run", "the gateway is not known"],
)
def test_what_a_router_alone_counts_at_a_replica_is_stale(
    running: int, in_flight: int | None, confidence: Confidence | None
) -> None:
    routed = series(Signal.ROUTED_IN_FLIGHT, 7, 7, every=240, replica="http://10.0.0.7:30001")
    known = () if in_flight is None else told(240, in_flight=in_flight)
    found = window(routed, series(Signal.RUNNING, running, start=240), known)
    verdict = STALE.judge(found)
    assert (None if verdict is None else verdict.confidence) is confidence


_STEADY = (
    series(Signal.RUNNING, *[3] * 30, name="Running"),
    series(Signal.GENERATION_RATE, *[50] * 30, name="Avg generation throughput"),
)


@pytest.mark.parametrize(("in_flight", "waits"), [(0, "at the gateway"), (None, "beside")])
def test_what_stands_still_is_argued_from_what_was_seen_alone(
    in_flight: int | None, waits: str
) -> None:
    known = () if in_flight is None else told(290, in_flight=in_flight)
    verdict = STALE.judge(window(*_STEADY, known))
    assert verdict is not None
    assert not any("no token comes" in each for each in verdict.evidence)
    (queues,) = [each for each in verdict.against if each.startswith("queue.blocked")]
    assert waits in queues

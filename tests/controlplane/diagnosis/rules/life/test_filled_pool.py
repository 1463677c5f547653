from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.life.leak import LEAK
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(*, queue: tuple[float, ...] = (22, 97, 143), **known: float) -> Verdict | None:
    return LEAK.judge(
        window(
            series(Signal.RUNNING, 118, 41, 0, every=600),
            series(Signal.KV_USAGE, 0.61, 0.84, 0.99, every=600),
            series(Signal.DECODE_QUEUE, *queue, every=600),
            *told(1500, **known),
        )
    )


def test_less_and_less_runs_in_a_pool_that_fills_while_callers_leave() -> None:
    verdict = _judge(in_flight=0, client_disconnects=2960)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_what_somebody_waits_for_or_what_keeps_nobody_out_is_no_leak() -> None:
    for verdict in (
        _judge(in_flight=140, client_disconnects=2960),
        _judge(queue=(0, 0, 0), in_flight=0, client_disconnects=2960),
        _judge(in_flight=0),
    ):
        assert verdict is None or verdict.confidence < Confidence.LIKELY

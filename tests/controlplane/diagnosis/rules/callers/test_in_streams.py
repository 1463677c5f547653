from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.callers.rejecting import REJECTING
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(*waiting: float, **known: int) -> Verdict | None:
    return REJECTING.judge(
        window(
            series(Signal.RUNNING, 48, 48),
            series(Signal.WAITING, *waiting),
            *told(10, **{"sent": 3000, "finished_with_tokens": 2820, **known}),
        )
    )


def test_streams_that_hold_an_error_alone_while_the_queue_stands_at_its_limit() -> None:
    verdict = _judge(32, 32, max_queued_requests=32, streams_with_error_chunk_only=180)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_errors_that_leave_some_unaccounted_or_beside_a_shorter_queue_are_no_refusals() -> None:
    assert _judge(32, 32, max_queued_requests=32, streams_with_error_chunk_only=90) is None
    assert _judge(12, 30, max_queued_requests=32, streams_with_error_chunk_only=180) is None

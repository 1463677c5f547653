"""A link that is hardly used while KV waits: by all who share it, and by more than one reading."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.placement.transfer_bound import TRANSFER_BOUND
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _wrote(thread: int, speed: float) -> str:
    return (
        f"I0302 08:57:10.155643 {thread} transfer_engine.cpp:364] [Metrics] Transfer Engine "
        f"Throughput: {speed} MB/s (over last 5s)"
    )


def _judge(*said: str | tuple[Fact, ...]) -> Verdict | None:
    return TRANSFER_BOUND.judge(
        window(
            series(Signal.TRANSFER_QUEUE, 150, 155, 160),
            series(Signal.WAITING, 0, 0, 0),
            told(20, link_gbit_s=400),
            *said,
        )
    )


def test_one_told_speed_is_one_reading() -> None:
    verdict = _judge(told(20, kv_transfer_rate_mb_s=2000))
    assert verdict is None or verdict.confidence is not Confidence.CERTAIN


def test_two_ranks_that_hardly_use_it_are_held_up_by_how_they_do() -> None:
    verdict = _judge(_wrote(1, 4.4), _wrote(2, 10.3))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_sixteen_ranks_share_one_link() -> None:
    verdict = _judge(*(_wrote(thread, 400) for thread in range(16)))
    assert verdict is None or verdict.confidence is not Confidence.CERTAIN


def test_one_rank_that_is_read_often_uses_what_it_uses_at_most() -> None:
    verdict = _judge(*[_wrote(1, 400)] * 16)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN

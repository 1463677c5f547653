from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.queue.head_of_line import HEAD_OF_LINE
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, window

ROOM = (
    series(Signal.RUNNING, 1, 2),
    series(Signal.WAITING, 3, 1),
    series(Signal.KV_USAGE, 0.04, 0.11),
)
LATE = fact("ttft_short_s", 3.067, unit=Unit.SECONDS)
ALONE = fact("ttft_short_first_in_line_s", 1.206, unit=Unit.SECONDS)


def test_a_short_prompt_that_takes_longer_behind_long_ones_than_ahead_of_them() -> None:
    verdict = HEAD_OF_LINE.judge(
        window(*ROOM, LATE, ALONE, fact("queued_before_it", "3 x 8000 words"))
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_without_a_long_one_in_front_it_is_only_slow() -> None:
    assert HEAD_OF_LINE.judge(window(*ROOM, LATE, ALONE)) is None


def test_a_full_cache_is_no_such_line() -> None:
    full = (*ROOM[:2], series(Signal.KV_USAGE, 0.99, 0.99))
    long = fact("queued_before_it", "3 x 8000 words")
    assert HEAD_OF_LINE.judge(window(*full, LATE, ALONE, long)) is None

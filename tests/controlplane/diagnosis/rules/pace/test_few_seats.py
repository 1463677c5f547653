"""A handful of seats: too few for a device, and perhaps as many as a processor serves."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.pace.underfilled import UNDERFILLED
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

BUSY = told(20, max_num_seqs=2, gpu_util=0.97)


def _judge(kv: float, *more: Series) -> Verdict | None:
    return UNDERFILLED.judge(
        window(
            series(Signal.RUNNING, 2, 2, 2),
            series(Signal.WAITING, 14, 14, 14),
            series(Signal.KV_USAGE, kv, kv, kv),
            series(Signal.GENERATION_RATE, 33, 34, 33),
            *more,
            *BUSY,
        )
    )


def test_two_seats_beside_an_empty_cache_are_too_few_however_busy_the_device_counts() -> None:
    verdict = _judge(0.003)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_few_seats_whose_contexts_fill_the_cache_are_no_limit_to_raise() -> None:
    assert _judge(0.6) is None


def test_few_seats_that_mostly_read_prompts_are_not_known_to_leave_the_device_idle() -> None:
    assert _judge(0.003, series(Signal.PROMPT_RATE, 9000, 9000, 9000)) is None


def test_few_seats_of_what_may_be_a_processor_are_only_asked_about() -> None:
    verdict = UNDERFILLED.judge(
        window(
            series(Signal.RUNNING, 4, 4, 4),
            series(Signal.WAITING, 36, 36, 36),
            series(Signal.KV_USAGE, 0.05, 0.05, 0.05),
            series(Signal.GENERATION_RATE, 30, 32, 31),
            *told(20, max_num_seqs=4),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "how busy the device is" in verdict.needs

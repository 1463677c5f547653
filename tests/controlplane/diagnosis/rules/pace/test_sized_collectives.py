from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.communication_bound import COMMUNICATION_BOUND
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(**values: float) -> Verdict | None:
    known = {
        "published_tokens_per_s": 64.4,
        "all_reduce_64_kb_us": 127,
        "all_reduce_1_mb_us": 2100,
        "all_reduces_per_pass": 100,
        **values,
    }
    return COMMUNICATION_BOUND.judge(
        window(
            series(Signal.RUNNING, 1, 1, 1),
            series(Signal.GENERATION_RATE, 31, 32, 31),
            series(Signal.ACCEPTANCE_LENGTH, 3.1, 3.2, 3.1),
            *told(20, **known),
        )
    )


def test_what_is_lost_lies_between_the_sizes_that_were_timed() -> None:
    verdict = _judge()
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_collectives_that_are_too_fast_or_a_speed_as_published_account_for_nothing() -> None:
    assert _judge(all_reduce_64_kb_us=12, all_reduce_1_mb_us=40) is None
    assert _judge(published_tokens_per_s=32) is None

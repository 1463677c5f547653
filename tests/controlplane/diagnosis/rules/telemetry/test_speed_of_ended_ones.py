from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(
    *steps: float, tokens: tuple[float, float] = (58120, 58120), **known: int
) -> Verdict | None:
    return MISREAD.judge(
        window(
            series(Signal.RUNNING, 1, 1, every=60),
            series(Signal.STEPS, *steps, every=60),
            series(Signal.GENERATION_RATE, 0, 0, every=60),
            series(
                Signal.GENERATION_TOKENS, *tokens, every=60, name="llamacpp:tokens_predicted_total"
            ),
            *told(60, **known),
        )
    )


def test_a_speed_of_zero_beside_steps_and_tokens_that_reach_their_caller() -> None:
    verdict = _judge(59007, 60869, in_flight=1, tokens_streamed_last_60_s=1860)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_without_steps_or_tokens_or_with_an_answer_that_ended_it_is_no_misreading() -> None:
    assert _judge(59007, 59007, in_flight=1, tokens_streamed_last_60_s=1860) is None
    assert _judge(59007, 60869, in_flight=1, tokens_streamed_last_60_s=0) is None
    ended = (58120.0, 59000.0)
    assert _judge(59007, 60869, tokens=ended, tokens_streamed_last_60_s=1860) is None

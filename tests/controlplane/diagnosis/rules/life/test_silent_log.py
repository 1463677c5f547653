from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(end: float, **known: float) -> Verdict | None:
    return HUNG.judge(
        window(
            series(Signal.BATCH_COMPUTED_TOKENS, 8192),
            series(Signal.RUNNING, 0),
            series(Signal.WAITING, 1),
            series(Signal.KV_USAGE, 0.01),
            *told(end, **known),
        )
    )


def test_no_batch_after_a_prefill_and_callers_without_a_token_for_minutes() -> None:
    verdict = _judge(390, in_flight=3, first_tokens_last_300_s=0)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_nobody_waits_or_tokens_come_or_it_is_too_soon_to_tell() -> None:
    for end, known in (
        (390, {"in_flight": 0, "first_tokens_last_300_s": 0}),
        (390, {"in_flight": 3, "first_tokens_last_300_s": 40}),
        (20, {"in_flight": 3, "first_tokens_last_10_s": 0}),
    ):
        verdict = _judge(end, **known)
        assert verdict is None or verdict.confidence < Confidence.LIKELY

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.precision import PRECISION
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

BEFORE = {"requests_per_s": 44.4, "ttft_p50_ms": 547, "tpot_p50_ms": 13.7, "client_concurrency": 64}
AFTER = {"requests_per_s": 36.2, "ttft_p50_ms": 1010, "tpot_p50_ms": 7.1, "client_concurrency": 64}


def _judge(what: str, **after: float) -> Verdict | None:
    return PRECISION.judge(
        window(
            series(Signal.RUNNING, 63, 63, start=5000),
            *told(0, **BEFORE),
            *told(5000, **{**AFTER, **after}),
            Change(at=1000, what=what),
        )
    )


def test_tokens_come_sooner_since_the_lower_precision_and_less_is_served() -> None:
    verdict = _judge("weights replaced: bf16 -> fp8")
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_more_served_or_other_changes_or_another_load_is_not_its_failure() -> None:
    assert _judge("weights replaced: bf16 -> fp8", requests_per_s=60, ttft_p50_ms=300) is None
    assert _judge("two more tenants on it") is None
    assert _judge("weights replaced: bf16 -> fp8", client_concurrency=20) is None

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

_AWAY = {"http_503_last_60_s": 40, "pool_saturation": 1.0}


def _judge(waiting: float = 0, **values: object) -> Verdict | None:
    return STALE.judge(
        window(
            series(Signal.RUNNING, 2),
            series(Signal.WAITING, waiting),
            series(Signal.KV_USAGE, 0.05),
            *told(0, **values),
        )
    )


def test_what_is_older_than_allowed_turns_requests_away_from_an_engine_with_room() -> None:
    verdict = _judge(metrics_age_ms=900, max_metrics_age_ms=500, **_AWAY)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    ("waiting", "values"),
    [
        (0, {"metrics_age_ms": 300, "max_metrics_age_ms": 500, **_AWAY}),
        (9, {"metrics_age_ms": 900, "max_metrics_age_ms": 500, **_AWAY}),
        (0, {"metrics_age_ms": 900, "max_metrics_age_ms": 500}),
    ],
    ids=["young enough", "the engine is full", "nobody is turned away"],
)
def test_nobody_is_turned_away_for_that(waiting: float, values: dict[str, object]) -> None:
    verdict = _judge(waiting, **values)
    assert verdict is None or verdict.confidence < Confidence.LIKELY

from dataclasses import replace

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(*usage: float, by: str = "process", **values: object) -> Verdict | None:
    parts = (
        replace(series(Signal.KV_USAGE, each), labels={by: f"{place}"})
        for place, each in enumerate(usage)
    )
    return MISREAD.judge(window(*parts, series(Signal.RUNNING, 80), *told(0, **values)))


def test_a_panel_shows_the_mean_of_one_value_and_the_zeros_beside_it() -> None:
    verdict = _judge(0.8, 0, 0, 0, panel_kv=0.2)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    ("usage", "by", "values"),
    [
        ((0.8, 0, 0, 0), "process", {"panel_kv": 0.8}),
        ((0.8, 0.4, 0, 0), "process", {"panel_kv": 0.3}),
        ((0.8, 0, 0, 0), "replica", {"panel_kv": 0.2}),
        ((0.8, 0, 0, 0), "process", {}),
    ],
    ids=["the greatest is shown", "two that hold", "four replicas", "nobody reads it"],
)
def test_that_is_no_mean_over_processes(
    usage: tuple[float, ...], by: str, values: dict[str, object]
) -> None:
    verdict = _judge(*usage, by=by, **values)
    assert verdict is None or verdict.confidence < Confidence.LIKELY

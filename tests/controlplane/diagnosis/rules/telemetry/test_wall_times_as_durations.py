"""Durations of half a century, which are a wall clock's time less one of another clock."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.skew import SKEW
from tests.controlplane.diagnosis.rules.build_window import told, window


@pytest.mark.parametrize(
    "values",
    [
        {"span_compile_s": 1748893494, "compile_attribute_s": 2.3},
        {"queue_wait_ms": 1778493751210, "request_total_ms": 2300},
        {"load_duration_seconds": 1761000120, "ready_after_s": 95},
        {"capture_graph_span_years": 55, "capture_graph_log_s": 12},
    ],
    ids=["a span", "a wait in milliseconds", "a duration", "as a dashboard shows it"],
)
def test_a_duration_that_is_a_unix_time_beside_a_sane_one_is_of_two_clocks(
    values: dict[str, object],
) -> None:
    verdict = SKEW.judge(window(told(**values)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_alone_it_asks_which_clock_took_either_end() -> None:
    verdict = SKEW.judge(window(told(span_compile_s=1748893494)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "which process took each of the two times" in verdict.needs


@pytest.mark.parametrize(
    "values",
    [
        {"process_start_time_seconds": 1748893494, "ttft_ms": 40},
        {"span_start_s": 1748893494, "span_end_s": 1748893496, "ttft_ms": 40},
        {"trace_timestamp_s": 1748893494, "ttft_ms": 40},
        {"trace_span_id": 1748893494, "ttft_ms": 40},
        {"scrape_time": 1748893494, "ttft_ms": 40},
        {"uptime_wait_s": 8_640_000, "ttft_ms": 40},
    ],
    ids=["a start", "both ends", "a timestamp", "a name", "when it was", "a hundred days"],
)
def test_moments_names_and_what_only_lasts_long_are_in_order(values: dict[str, object]) -> None:
    assert SKEW.judge(window(told(**values))) is None

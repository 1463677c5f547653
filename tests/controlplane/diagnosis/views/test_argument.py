from controlplane.diagnosis.views.argument import course
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series


def test_a_day_of_readings_does_not_hide_its_last_minutes() -> None:
    rates = series(Signal.GENERATION_RATE, *[400 + each % 7 for each in range(1000)], *[0] * 20)
    assert course(rates).endswith("0 for the last 190 s")


def test_a_day_of_readings_does_not_hide_its_peak() -> None:
    queue = series(Signal.WAITING, *[0] * 100, 12, 43, 20, *[0] * 900)
    assert "at most 43, 9010 s before its end" in course(queue)


def test_a_short_course_is_told_whole() -> None:
    assert course(series(Signal.WAITING, 43, 42, 33, 23)) == "test:waiting 43, 42, 33, 23 in 30 s"

"""Looks at a llama.cpp server, which counts tokens when a request ends: see `recorded`."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.window import Window
from tests.controlplane.diagnosis.recorded import recorded_window

BUSY, IDLE = "llamacpp-two-slots-busy", "llamacpp-two-slots-idle"
OVERLOAD = "troubled/llamacpp-overload"
LOOKS = [(start, seconds) for seconds in (12.0, 20.0) for start in (4.0, 12.0, 20.0, 28.0, 36.0)]


def _named(window: Window) -> tuple[Mechanism, Confidence | None]:
    diagnosis = diagnose(window, BUILT_IN_RULES)
    return diagnosis.mechanism, diagnosis.confidence


@pytest.mark.parametrize(("start", "seconds"), LOOKS)
def test_each_short_look_at_a_steady_load_is_healthy(start: float, seconds: float) -> None:
    assert _named(recorded_window(BUSY, start, seconds)) == (Mechanism.HEALTHY, Confidence.LIKELY)


@pytest.mark.parametrize(("start", "seconds"), LOOKS)
def test_each_short_look_at_twenty_clients_on_two_slots_is_overload(
    start: float, seconds: float
) -> None:
    named = _named(recorded_window(OVERLOAD, start, seconds))
    assert named == (Mechanism.QUEUE_OVERLOAD, Confidence.LIKELY)


def test_a_server_that_was_never_asked_for_anything_is_idle_at_a_look() -> None:
    assert _named(recorded_window(IDLE, 0.0, 12.0)) == (Mechanism.HEALTHY, Confidence.LIKELY)


def test_the_whole_recording_of_twenty_clients_is_overload() -> None:
    assert _named(recorded_window(OVERLOAD))[0] is Mechanism.QUEUE_OVERLOAD


def test_a_speed_is_told_over_several_ends_and_not_between_scrapes() -> None:
    decode = activity_of(recorded_window(BUSY)).decode
    assert decode is not None
    assert 0 < len(decode.readings) < 5
    assert decode.min > 10
    assert "over several ends" in decode.origin.name


def test_a_look_with_too_few_ends_knows_no_speed() -> None:
    assert activity_of(recorded_window(BUSY, 4.0, 6.0)).decode is None

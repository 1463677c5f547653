"""Sound engines are called healthy, by all that their pages hold: see `recorded`."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from tests.controlplane.diagnosis.recorded import NAMES, recorded_window


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_page_of_a_sound_engine_is_healthy(name: str) -> None:
    diagnosis = diagnose(recorded_window(name), BUILT_IN_RULES)
    assert diagnosis.mechanism is Mechanism.HEALTHY
    assert diagnosis.confidence is Confidence.LIKELY
    assert diagnosis.findings[0].verdict.detail == name.rpartition("-")[2]


def test_each_engine_was_seen_busy_and_idle() -> None:
    engines = {name.rpartition("-")[0] for name in NAMES}
    assert {f"{engine}-{state}" for engine in engines for state in ("busy", "idle")} == set(NAMES)

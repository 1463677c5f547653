"""An engine whose steps take longer than a scrape shows the same count twice and works on."""

import pytest

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited

STEPS_OF_TWO_SECONDS = [355 + 4 * (at // 2) for at in range(20)]


def _watched(*stands: int, **known: object) -> Window:
    """A page a second: four sequences, a step every two or three, then what `stands`."""
    made = [*STEPS_OF_TWO_SECONDS, *stands]
    steady = len(made)
    return window(
        series(Signal.RUNNING, *[4] * steady, every=1),
        series(Signal.WAITING, *[0] * steady, every=1),
        series(Signal.KV_USAGE, *[0.009] * steady, every=1),
        series(Signal.GENERATION_TOKENS, *made, every=1, name="made"),
        told(steady - 1, **known) if known else (),
        engine="pilothouse",
    )


@pytest.mark.parametrize("stands", [(), (391,), (391, 391, 391)])
def test_a_gap_as_between_other_tokens_is_no_standstill(stands: tuple[int, ...]) -> None:
    found = _watched(*stands)
    assert HUNG.judge(found) is None
    assert diagnose(found, BUILT_IN_RULES).mechanism is Mechanism.HEALTHY


def test_steps_of_many_seconds_are_neither_a_standstill_nor_health() -> None:
    made = [355 + 4 * (at // 7) for at in range(30)]
    found = window(
        series(Signal.RUNNING, *[4] * 30, every=1),
        series(Signal.WAITING, *[0] * 30, every=1),
        series(Signal.KV_USAGE, *[0.009] * 30, every=1),
        series(Signal.GENERATION_TOKENS, *made, every=1),
        engine="pilothouse",
    )
    assert HUNG.judge(found) is None
    assert diagnose(found, BUILT_IN_RULES).mechanism is Mechanism.CANNOT_TELL


def test_one_that_is_much_longer_is_and_cites_the_count_since() -> None:
    found = _watched(*[391] * 15)
    verdict = HUNG.judge(found)
    assert verdict is not None
    assert ("made", "391") in cited(found, verdict)
    assert ("made", "355") not in cited(found, verdict)


def test_a_request_that_was_not_answered_meanwhile_counts_all_the_same() -> None:
    assert HUNG.judge(_watched(391, 391, probe="no answer in 30 s")) is not None


def test_a_gap_in_which_nothing_ran_is_of_no_step() -> None:
    made = [*[7] * 40, *range(7, 24, 4), *[23] * 20]
    found = window(
        series(Signal.RUNNING, *[0] * 40, *[4] * 25, every=1),
        series(Signal.GENERATION_TOKENS, *made, every=1),
        engine="pilothouse",
    )
    assert HUNG.judge(found) is not None

"""It answered nothing for a while within a watch: told beside whatever the rest of it shows."""

import pytest

from controlplane.cli.diagnosis_output import diagnosis_text
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.life.stalled import STALLED
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window

LATE = "no answer within 5 s"
MOMENTS = [float(at) for at in (*range(11), *range(22, 31))]
"""Of pages: each second, and none from the tenth to the 22nd."""


def _at(signal: Signal, *values: float, moments: list[float] = MOMENTS) -> Series:
    whole = series(signal, *values)
    readings = zip(moments, whole.readings, strict=True)
    return Series(
        signal=signal,
        origin=whole.origin,
        readings=tuple(Reading(at, each.value, each.raw) for at, each in readings),
    )


def _frozen(*, why: str = LATE, tokens_meanwhile: float = 0.0) -> Window:
    """A queue that drains, on both sides of the pause."""
    done = [50.0 * i + (tokens_meanwhile if i > 10 else 0) for i in range(len(MOMENTS))]
    failed = [FailedScrape(at, "http://e/metrics", why) for at in (11.0, 16.0)]
    return window(
        _at(Signal.RUNNING, *[4.0] * len(MOMENTS)),
        _at(Signal.WAITING, *[40.0 - 2 * i for i in range(len(MOMENTS))]),
        _at(Signal.GENERATION_TOKENS, *done),
        told_of_failures(failed, len(MOMENTS) + 2)[0],
    )


def test_a_pause_is_told_beside_a_queue_that_drains_with_what_would_settle_it() -> None:
    found = diagnose(_frozen(), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.QUEUE_BURST_DRAINING
    [beside] = [each for each in found.possible if each.rule is STALLED]
    assert beside.mechanism is Mechanism.ENGINE_HUNG
    assert beside.confidence is Confidence.POSSIBLE
    assert beside.verdict.needs
    assert beside.verdict.needs[0] in " ".join(diagnosis_text(found).split())


def test_what_is_computed_meanwhile_speaks_against_steps_that_stood() -> None:
    stood, went_on = (STALLED.judge(_frozen(tokens_meanwhile=n)) for n in (0.0, 600.0))
    assert stood is not None
    assert went_on is not None
    assert len(went_on.against) == len(stood.against) + 1


@pytest.mark.parametrize("why", ["ConnectError: All connection attempts failed", "503"])
def test_a_page_that_was_refused_meanwhile_is_no_pause(why: str) -> None:
    assert STALLED.judge(_frozen(why=why)) is None


def test_slow_pages_all_along_are_no_pause() -> None:
    moments = [12.0 * i for i in range(6)]
    slow = _at(Signal.RUNNING, *[4.0] * 6, moments=moments)
    failed = [FailedScrape(at, "http://e/metrics", LATE) for at in (11.0, 16.0)]
    assert STALLED.judge(window(slow, told_of_failures(failed, 8)[0])) is None


def test_pages_that_end_are_no_pause() -> None:
    ended = _at(Signal.RUNNING, *[4.0] * 11, moments=MOMENTS[:11])
    failed = [FailedScrape(at, "http://e/metrics", LATE) for at in (11.0, 16.0)]
    assert STALLED.judge(window(ended, told_of_failures(failed, 13)[0], end=30)) is None

"""A process that is gone: what its pages said before is no answer, and does not stand still."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.sources.failed_scrapes import (
    SILENT_KEY,
    FailedScrape,
    told_of_failures,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

REFUSED = "ConnectError: All connection attempts failed"
LATE = "no answer within 2 s"
PAGE_ENDS, END = 55.0, 75.0


def _silent(why: str) -> tuple[Fact, ...]:
    """What the look of the control plane is told of a replica whose pages ended."""
    failed = [FailedScrape(at, "r-1", why) for at in (60.0, 65.0, 70.0)]
    silent = told(END, **{SILENT_KEY: {"r-1": 15}})
    return (*told_of_failures(failed, 15)[0], *silent)


def _overloaded(*silent: Fact, end: float = END) -> Window:
    return window(
        series(Signal.RUNNING, *[16] * 12, every=5, replica="r-1"),
        series(Signal.WAITING, *range(30, 42), every=5, replica="r-1"),
        series(Signal.GENERATION_TOKENS, *range(0, 12000, 1000), every=5, replica="r-1"),
        series(Signal.SEATS, *[16] * 12, every=5, replica="r-1"),
        silent,
        end=end,
    )


def test_an_overload_is_none_any_more_once_the_port_refuses_and_the_end_is_asked_for() -> None:
    before = diagnose(_overloaded(end=PAGE_ENDS), BUILT_IN_RULES)
    assert before.mechanism is Mechanism.QUEUE_OVERLOAD
    gone = diagnose(_overloaded(*_silent(REFUSED)), BUILT_IN_RULES)
    assert gone.mechanism is Mechanism.CANNOT_TELL
    assert not gone.findings
    assert Mechanism.QUEUE_OVERLOAD in {each.mechanism for each in gone.possible}
    assert {each.confidence for each in gone.possible} == {Confidence.POSSIBLE}
    assert REFUSED in gone.needs[0]


def test_one_of_two_replicas_that_refuses_hides_nothing_of_the_other() -> None:
    other = series(Signal.RUNNING, *[3] * 16, every=5, replica="r-2")
    both = _overloaded(*_silent(REFUSED))
    found = diagnose(
        Window(start=0, end=END, series=(*both.series, other), facts=both.facts), BUILT_IN_RULES
    )
    assert not any(REFUSED in need for need in found.needs)


def _idle_until_it_was_gone(*gateway: float, why: str = REFUSED) -> Window:
    """Nothing was asked of it; then work began, and its pages ended."""
    return window(
        series(Signal.PROMPT_TOKENS, *[15374] * 12, every=5, replica="r-1"),
        series(Signal.RUNNING, *[0] * 12, every=5, replica="r-1"),
        series(Signal.WAITING, *[0] * 12, every=5, replica="r-1"),
        series(Signal.GATEWAY_OUTPUT_TOKENS, *gateway, every=5),
        _silent(why),
        end=END,
    )


@pytest.mark.parametrize("why", [REFUSED, LATE])
def test_a_page_that_is_not_there_does_not_stand_still_while_tokens_come(why: str) -> None:
    after = [4743.0] * 12 + [4780.0, 4843.0, 4843.0, 4843.0]
    just_before = [4743.0] * 10 + [4780.0, 4843.0, 4843.0, 4843.0, 4843.0, 4843.0]
    for gateway in (after, just_before):
        assert STALE.judge(_idle_until_it_was_gone(*gateway, why=why)) is None


def test_pages_that_stood_while_tokens_came_stay_stale_though_they_ended_since() -> None:
    verdict = STALE.judge(_idle_until_it_was_gone(*range(4000, 4160, 10)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN

"""A process that is not there any more, by what its port answers to our own calls."""

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.life.gone import GONE
from controlplane.diagnosis.sources.case import read_case
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.refusals import (
    LOOKS_KEY,
    SHUT_KEY,
    Refusals,
    told_of_refusals,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window
from tests.controlplane.diagnosis.rules.evidence import cited, weighed

REFUSED = "its port: refused: the host is there, and nothing listens at its port 8000"
PAGE_ENDS, EVERY = 55.0, 5.0
CASES = Path(__file__).parents[5] / "tests" / "incidents"


def refused(num: int, name: str = "r-1", *, every: float = EVERY) -> tuple[Fact, ...]:
    """What our calls met after its last page: an answer, and then `num` refusals."""
    refusals = Refusals().after_answer()
    times = [PAGE_ENDS + every * (index + 1) for index in range(num)]
    for at in times:
        refusals = refusals.after_refusal(at)
    failed = [FailedScrape(at, name, REFUSED) for at in times]
    return (*told_of_failures(failed, 12 + num)[0], *told_of_refusals({name: refusals}))


def seen(*facts: Fact, end: float) -> Window:
    return window(
        series(Signal.RUNNING, *[3] * 12, every=5, replica="r-1"),
        series(Signal.GENERATION_TOKENS, *range(0, 1200, 100), every=5, replica="r-1"),
        tuple(facts),
        end=end,
    )


def judged(num: int, *, every: float = EVERY) -> Verdict | None:
    return GONE.judge(seen(*refused(num, every=every), end=PAGE_ENDS + every * num))


@pytest.mark.parametrize(
    ("num", "every", "confidence"),
    [
        (1, 5.0, None),
        (2, 5.0, None),
        (3, 5.0, Confidence.LIKELY),
        (4, 5.0, Confidence.LIKELY),
        (5, 5.0, Confidence.CERTAIN),
        (2, 30.0, Confidence.LIKELY),
        (9, 1.0, None),
    ],
)
def test_how_sure_it_is_goes_by_how_often_and_how_long_its_port_refused(
    num: int, every: float, confidence: Confidence | None
) -> None:
    verdict = judged(num, every=every)
    assert (verdict and verdict.confidence) == confidence


def test_it_names_the_replica_and_cites_since_when_and_what_it_did_last() -> None:
    end = PAGE_ENDS + 25
    found = seen(*refused(5), end=end)
    verdict = GONE.judge(found)
    assert verdict is not None
    assert verdict.detail == "r-1"
    figures = cited(found, verdict)
    assert {(f"{SHUT_KEY}.r-1", "20 s"), (f"{LOOKS_KEY}.r-1", "5")} <= figures
    assert ("test:running", "3") in figures
    assert weighed(verdict) == {Mechanism.ENGINE_HUNG}
    assert verdict.needs


def test_all_that_was_wrong_before_steps_back_once_the_last_one_is_gone() -> None:
    diagnosis = diagnose(seen(*refused(5), end=PAGE_ENDS + 25), BUILT_IN_RULES)
    assert [each.mechanism for each in diagnosis.findings] == [Mechanism.ENGINE_GONE]
    assert diagnosis.confidence is Confidence.CERTAIN


def test_what_somebody_wrote_down_is_no_call_of_ours() -> None:
    told = facts_of({SHUT_KEY: {"r-1": 60}, LOOKS_KEY: {"r-1": 12}}, PAGE_ENDS + 25)
    assert GONE.judge(seen(*told, end=PAGE_ENDS + 25)) is None


def test_what_was_met_minutes_ago_says_nothing_of_now() -> None:
    assert GONE.judge(seen(*refused(5), end=PAGE_ENDS + 25 + 120)) is None


@pytest.mark.parametrize("case", ["oom-host-prompt-state", "oom-prefill-372k-context"])
def test_memory_that_ran_out_is_the_answer_where_that_ended_it(case: str) -> None:
    path = CASES / f"{case}.yaml"
    before = read_case(path.read_text(encoding="utf-8"), path.name).window
    refusals = Refusals().after_answer()
    for seconds in (22.0, 10.0, 0.0):
        refusals = refusals.after_refusal(before.end - seconds)
    ended = replace(before, facts=(*before.facts, *told_of_refusals({"": refusals})))
    was, now = diagnose(before, BUILT_IN_RULES), diagnose(ended, BUILT_IN_RULES)
    assert now.mechanism is was.mechanism
    assert Mechanism.ENGINE_GONE not in {each.mechanism for each in now.findings}
    assert Mechanism.ENGINE_GONE in {each.mechanism for each in now.explained}


def test_one_of_two_is_gone_and_the_other_is_judged_as_before() -> None:
    both = window(
        *seen(end=PAGE_ENDS).series,
        series(Signal.RUNNING, *[3] * 17, every=5, replica="r-2"),
        refused(5),
        end=PAGE_ENDS + 25,
    )
    diagnosis = diagnose(both, BUILT_IN_RULES)
    assert diagnosis.mechanism is Mechanism.ENGINE_GONE
    assert diagnosis.findings[0].verdict.detail == "r-1"

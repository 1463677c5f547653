"""Against the stable arm and against the contract: what a step comes to."""

import math
from dataclasses import replace

import pytest

from controlplane.rollouts.analysis.arm_request import ArmRequest
from controlplane.rollouts.analysis.comparison import AnalysisTerms
from controlplane.rollouts.analysis.measures import MEASURES
from controlplane.rollouts.analysis.standing import Burning
from controlplane.rollouts.analysis.step import StepAnalysis, analyse_step
from controlplane.rollouts.analysis.tally import tally_of
from controlplane.rollouts.verdict import Verdict
from controlplane.slo.promised import Promise
from dataplane.arm import Arm
from dataplane.lifecycle import Disposition

PROMISE = Promise(
    deployment="chat",
    request_class="interactive",
    objective="ttft",
    at_most_seconds=0.3,
    target=0.99,
    period_seconds=30 * 86400,
    contract_revision="chat@2",
)
GOOD = ArmRequest(
    request_class="interactive",
    disposition=Disposition.STOP,
    num_prompt_tokens=100,
    num_output_tokens=50,
    in_contract=True,
    ttft=0.2,
    tpot=0.02,
    contract_revision="chat@2",
    objectives={"ttft": True},
)
LATE = replace(GOOD, in_contract=False, objectives={"ttft": False})
Seen = list[tuple[Arm, ArmRequest]]


def seen(which: Arm, num: int, share_late: float = 0.0) -> Seen:
    """Spread evenly, and with a spread of latencies."""
    num_late = round(num * share_late)
    return [
        (
            which,
            replace(
                LATE if n < num_late else GOOD, ttft=0.2 + n % 7 / 1000, tpot=0.02 + n % 5 / 1e4
            ),
        )
        for n in range(num)
    ]


def analysed(requests: Seen, share: float = 0.5, *promises: Promise) -> StepAnalysis:
    tally = tally_of(requests, MEASURES)
    return analyse_step(tally, promises or [PROMISE], AnalysisTerms(), share=share)


def outcome(found: StepAnalysis) -> tuple[Verdict, Burning]:
    return found.decision.verdict, found.standings[0].burning


def test_one_that_keeps_the_contract_as_stable_does_is_promoted() -> None:
    found = analysed(seen(Arm.STABLE, 8000, 0.005) + seen(Arm.CANDIDATE, 8000, 0.005))
    assert outcome(found) == (Verdict.PROMOTE, Burning.NO)
    burn = found.standings[0].burn[Arm.CANDIDATE]
    assert burn is not None
    assert burn.estimate == pytest.approx(0.5)
    assert burn.low < 0.5 < burn.high


def test_one_that_burns_a_budget_goes_back_before_measures_have_enough_requests() -> None:
    found = analysed(seen(Arm.STABLE, 60) + seen(Arm.CANDIDATE, 60, 0.5))
    assert outcome(found) == (Verdict.REJECT, Burning.TOO_FAST)
    assert found.decision.deciding is not None
    assert found.decision.deciding.metric == "interactive ttft"
    assert "chat@2" in found.decision.reason


def test_what_both_arms_suffer_from_throws_nobody_out_and_promotes_nobody() -> None:
    found = analysed(seen(Arm.STABLE, 8000, 0.3) + seen(Arm.CANDIDATE, 8000, 0.3))
    assert outcome(found) == (Verdict.UNDECIDED, Burning.WITH_STABLE)


def test_a_budget_that_is_spent_a_little_too_fast_is_left_to_the_comparison() -> None:
    found = analysed(seen(Arm.STABLE, 8000, 0.02) + seen(Arm.CANDIDATE, 8000, 0.02))
    assert outcome(found) == (Verdict.PROMOTE, Burning.NO)


def test_one_that_misses_a_promise_that_stable_keeps_is_not_promoted_within_a_margin() -> None:
    strict = replace(PROMISE, target=0.999)
    found = analysed(
        seen(Arm.STABLE, 20000, 0.0005) + seen(Arm.CANDIDATE, 20000, 0.003), 0.5, strict
    )
    assert outcome(found) == (Verdict.UNDECIDED, Burning.MISSES)
    assert all(each.is_good is not False for each in found.comparisons)
    alike = seen(Arm.STABLE, 20000, 0.003) + seen(Arm.CANDIDATE, 20000, 0.003)
    assert outcome(analysed(alike, 0.5, strict)) == (Verdict.PROMOTE, Burning.NO)
    alone = analysed(seen(Arm.CANDIDATE, 20000, 0.003), 1.0, strict)
    assert outcome(alone) == (Verdict.UNDECIDED, Burning.MISSES)


@pytest.mark.parametrize("latency", [math.nan, math.inf, 0.0, -1.0])
def test_a_latency_that_is_no_duration_is_only_ever_undecided(latency: float) -> None:
    odd = [(arm, replace(each, ttft=latency)) for arm, each in seen(Arm.CANDIDATE, 8000)]
    found = analysed(seen(Arm.STABLE, 8000) + odd)
    assert found.decision.verdict is Verdict.UNDECIDED
    assert [each.measure.name for each in found.comparisons if each.is_good is None] == ["ttft"]


def test_with_all_of_the_traffic_the_contract_alone_decides() -> None:
    assert outcome(analysed(seen(Arm.CANDIDATE, 500), 1.0)) == (Verdict.PROMOTE, Burning.NO)
    assert outcome(analysed(seen(Arm.CANDIDATE, 500, 0.2), 1.0)) == (
        Verdict.REJECT,
        Burning.TOO_FAST,
    )
    few = analysed(seen(Arm.CANDIDATE, 199), 1.0)
    assert outcome(few) == (Verdict.UNDECIDED, Burning.NO)
    assert "199" in few.decision.reason


def test_with_all_of_the_traffic_and_no_contract_nothing_is_known() -> None:
    alone = analyse_step(
        tally_of(seen(Arm.CANDIDATE, 500), MEASURES), [], AnalysisTerms(), share=1.0
    )
    assert (alone.decision.verdict, alone.standings) == (Verdict.UNDECIDED, [])


def test_only_requests_that_were_judged_by_the_contract_in_force_speak_of_it() -> None:
    newer = replace(PROMISE, contract_revision="chat@3", at_most_seconds=0.1)
    requests = seen(Arm.STABLE, 400) + seen(Arm.CANDIDATE, 400, 0.5)
    found = analysed(requests, 0.5, newer).standings[0]
    assert (found.burning, found.kept[Arm.CANDIDATE].num) == (Burning.UNKNOWN, 0)
    assert found.burn[Arm.STABLE] is None


def test_requests_judged_by_different_revisions_are_not_alike() -> None:
    judged_before = [
        (which, replace(each, contract_revision="chat@1"))
        for which, each in seen(Arm.CANDIDATE, 400, 0.5)
    ]
    attainment = analysed(seen(Arm.STABLE, 400) + judged_before).comparisons[0]
    assert (attainment.measure.name, attainment.num_candidate) == ("attainment", 0)
    assert attainment.num_unmatched == 400

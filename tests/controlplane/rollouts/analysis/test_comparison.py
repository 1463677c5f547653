"""What the arms' requests say together."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from controlplane.rollouts.analysis.arm_request import ArmRequest, length_band
from controlplane.rollouts.analysis.comparison import (
    AnalysisTerms,
    Comparison,
    analyse,
    judge_measures,
)
from controlplane.rollouts.analysis.tally import tally_of
from controlplane.rollouts.verdict import Verdict
from dataplane.arm import Arm
from dataplane.lifecycle import Disposition

TERMS = AnalysisTerms()
ANSWER = ArmRequest(
    request_class="interactive",
    disposition=Disposition.STOP,
    num_prompt_tokens=100,
    num_output_tokens=50,
    in_contract=True,
    ttft=0.2,
    tpot=0.02,
)
Seen = tuple[Arm, ArmRequest]


def arm(which: Arm, num: int = 4000, **factors: float) -> list[Seen]:
    """Answers of all lengths, spread as those of engines are. `pace` is how much longer a token
    takes, `first` a first token, `length` how much longer answers are, `missed` the share out of
    contract."""
    rng = np.random.default_rng(list(Arm).index(which))
    prompts = rng.lognormal(5, 1, num)
    outputs = rng.lognormal(4, 0.7, num) * factors.get("length", 1)
    firsts, paces = rng.lognormal(-1.6, 0.5, num), rng.lognormal(-3.9, 0.2, num)
    in_contract = rng.random(num) >= factors.get("missed", 0.02)
    return [
        (
            which,
            replace(
                ANSWER,
                num_prompt_tokens=int(prompts[n]),
                num_output_tokens=2 + int(outputs[n]),
                ttft=float(firsts[n] * factors.get("first", 1)),
                # a short answer has a quick pace: what is kept in memory of it is little
                tpot=float(paces[n] * outputs[n] ** 0.3 * factors.get("pace", 1)),
                in_contract=bool(in_contract[n]),
            ),
        )
        for n in range(num)
    ]


def analysed(seen: Sequence[Seen]) -> list[Comparison]:
    return analyse(tally_of(seen, TERMS.measures).strata, TERMS)


def by_name(seen: Sequence[Seen]) -> dict[str, Comparison]:
    return {each.measure.name: each for each in analysed(seen)}


def verdict(seen: Sequence[Seen]) -> tuple[Verdict, str | None]:
    decision = judge_measures(analysed(seen))
    return decision.verdict, decision.deciding.metric if decision.deciding else None


STABLE = arm(Arm.STABLE, 8000)


def test_a_candidate_like_the_stable_arm_is_promoted() -> None:
    assert verdict(STABLE + arm(Arm.CANDIDATE, 8000)) == (Verdict.PROMOTE, None)


@pytest.mark.parametrize(
    ("candidate", "measure"),
    [
        (arm(Arm.CANDIDATE, missed=0.07), "attainment"),
        (arm(Arm.CANDIDATE, first=1.4), "ttft"),
        (arm(Arm.CANDIDATE, pace=1.3), "tpot"),
        (arm(Arm.CANDIDATE, length=0.6), "answer_length"),
    ],
    ids=["missed", "first", "pace", "length"],
)
def test_one_that_is_worse_in_one_thing_is_rejected_for_it(
    candidate: list[Seen], measure: str
) -> None:
    assert verdict(STABLE + candidate) == (Verdict.REJECT, measure)


def test_what_is_faster_because_its_answers_are_shorter_is_not_better() -> None:
    short = arm(Arm.CANDIDATE, length=0.4)
    found = by_name(STABLE + short)
    assert found["tpot"].is_good is not False
    shown = found["tpot"].shown
    assert shown is not None
    # by means alone tokens come a quarter faster
    assert abs(shown.estimate) < 0.1
    assert found["answer_length"].is_good is False


@pytest.mark.parametrize(
    ("ends", "measure"),
    [
        ({"disposition": Disposition.ERROR}, "failures"),
        ({"disposition": Disposition.REJECTED}, "failures"),
        ({"disposition": Disposition.LENGTH}, "cut"),
        ({"num_output_tokens": 0}, "empty"),
    ],
)
def test_failed_refused_cut_and_empty_answers_are_no_improvement(
    ends: dict[str, object], measure: str
) -> None:
    candidate = [
        (which, replace(each, **ends) if number % 8 == 0 else each)  # type: ignore[arg-type]
        for number, (which, each) in enumerate(arm(Arm.CANDIDATE))
    ]
    found = by_name(STABLE + candidate)
    assert [name for name, each in found.items() if each.is_good is False] == [measure]


@pytest.mark.parametrize("disposition", [Disposition.CANCELLED, Disposition.INVALID])
def test_what_its_caller_ended_or_got_wrong_fails_nobody(disposition: Disposition) -> None:
    left = [
        (which, replace(each, disposition=disposition, in_contract=None))
        for which, each in arm(Arm.CANDIDATE)
    ]
    found = by_name(STABLE + left)
    assert {name for name, each in found.items() if each.is_good is False} == set()
    assert judge_measures(list(found.values())).verdict is Verdict.UNDECIDED


def test_too_few_requests_decide_nothing_however_bad_they_look() -> None:
    bad = [(Arm.CANDIDATE, replace(ANSWER, in_contract=False, disposition=Disposition.ERROR))]
    assert verdict(STABLE + bad * 199)[0] is Verdict.UNDECIDED
    like = [(Arm.STABLE, ANSWER)] * 500
    assert verdict(like + bad * 200) == (Verdict.REJECT, "attainment")


def test_no_requests_are_no_verdict() -> None:
    assert verdict([])[0] is Verdict.UNDECIDED
    assert verdict(STABLE)[0] is Verdict.UNDECIDED
    assert verdict(arm(Arm.CANDIDATE))[0] is Verdict.UNDECIDED


def test_a_question_that_no_stable_request_answers_is_none_of_this_traffic() -> None:
    def unpaced(seen: Sequence[Seen]) -> list[Seen]:
        return [(which, replace(each, tpot=None)) for which, each in seen]

    candidate = arm(Arm.CANDIDATE, 8000)
    assert not by_name(unpaced(STABLE) + candidate)["tpot"].applies
    assert verdict(unpaced(STABLE) + candidate)[0] is Verdict.PROMOTE
    # that only the candidate's are missing is no answer, and surely no good one
    assert verdict(STABLE + unpaced(candidate))[0] is Verdict.UNDECIDED


def test_requests_of_another_length_are_no_likes_and_are_told_of() -> None:
    longer = [
        (which, replace(each, num_prompt_tokens=100_000)) for which, each in arm(Arm.CANDIDATE)
    ]
    found = by_name(STABLE + longer)["ttft"]
    assert (found.num_candidate, found.num_unmatched) == (0, 4000)
    assert found.measurement.is_good is None
    assert "0 candidate" in found.measurement.why_none


def test_ratios_are_shown_as_the_parts_by_which_the_candidate_is_larger() -> None:
    found = by_name(STABLE + arm(Arm.CANDIDATE, first=1.4))["ttft"]
    shown, apart = found.shown, found.apart
    assert shown is not None
    assert apart is not None
    assert shown.estimate == pytest.approx(math.expm1(apart.estimate))
    assert shown.low < 0.4 < shown.high


def test_who_is_refused_without_a_class_is_refused_all_the_same() -> None:
    refused = [
        (which, replace(each, request_class="", disposition=Disposition.REJECTED))
        for which, each in arm(Arm.CANDIDATE)
    ]
    assert verdict(STABLE + refused) == (Verdict.REJECT, "failures")


def test_what_turned_it_is_said_in_figures() -> None:
    slow = judge_measures(analysed(STABLE + arm(Arm.CANDIDATE, first=1.4)))
    assert slow.reason.startswith("ttft is worse: +")
    assert " candidate and 8000 stable requests" in slow.reason
    few = judge_measures(analysed(STABLE + arm(Arm.CANDIDATE, 50)))
    assert "attainment, failures, cut" in few.reason
    assert "candidate requests are alike" in few.reason


def test_bands_double() -> None:
    assert [length_band(num) for num in (None, 0, 1, 2, 3, 6, 7, 1023)] == [
        -1,
        0,
        1,
        1,
        2,
        2,
        3,
        10,
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_requests": 0},
        {"num_steps": 0},
        {"confidence": 1.0},
        {"confidence": 0.0},
        {"measures": ()},
    ],
)
def test_terms_that_judge_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="an analysis needs"):
        replace(TERMS, **wrong)  # type: ignore[arg-type]

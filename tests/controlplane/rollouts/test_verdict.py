"""What is not measured decides nothing."""

import math

import pytest

from controlplane.rollouts.verdict import Measurement, Verdict, VerdictTerms, decide

TERMS = VerdictTerms(metrics=("ttft",), min_good=3, max_bad=1)
ERRORED = Measurement(metric="ttft", value=None, is_good=None, why_none="connection refused")
GOOD = Measurement(metric="ttft", value=0.991, is_good=True)
BAD = Measurement(metric="ttft", value=0.7, is_good=False)


def test_t9_an_analysis_whose_five_queries_all_failed_is_undecided() -> None:
    decision = decide([ERRORED] * 5, TERMS)
    assert decision.verdict is Verdict.UNDECIDED
    assert "connection refused" in decision.reason


@pytest.mark.parametrize("num_asked", range(6))
@pytest.mark.parametrize("min_good", [1, 3])
def test_t9_failed_queries_never_promote_however_many_there_are(
    num_asked: int, min_good: int
) -> None:
    terms = VerdictTerms(metrics=("ttft",), min_good=min_good)
    assert decide([ERRORED] * num_asked, terms).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_what_is_no_number_is_no_success_and_no_failure(value: float | None) -> None:
    for is_good in (True, False):
        told = Measurement(metric="ttft", value=value, is_good=is_good)
        assert decide([told] * 5, TERMS).verdict is Verdict.UNDECIDED


def test_enough_good_ones_promote_though_a_query_failed_between_them() -> None:
    assert decide([GOOD, ERRORED, GOOD, GOOD], TERMS).verdict is Verdict.PROMOTE
    assert decide([GOOD, GOOD], TERMS).verdict is Verdict.UNDECIDED


def test_one_bad_one_too_many_rejects_and_is_named_though_queries_failed() -> None:
    second = Measurement(metric="ttft", value=0.65, is_good=False)
    decision = decide([GOOD, GOOD, GOOD, BAD, ERRORED, second], TERMS)
    assert decision.verdict is Verdict.REJECT
    assert decision.deciding is second


def test_a_metric_that_was_never_measured_holds_up_those_that_are_good() -> None:
    terms = VerdictTerms(metrics=("ttft", "availability"))
    assert decide([GOOD], terms).verdict is Verdict.UNDECIDED
    available = Measurement(metric="availability", value=1.0, is_good=True)
    assert decide([GOOD, available], terms).verdict is Verdict.PROMOTE


def test_too_few_requests_to_tell_are_neither() -> None:
    unclear = Measurement(metric="ttft", value=0.5, is_good=None)
    assert decide([unclear] * 9, TERMS).verdict is Verdict.UNDECIDED


def test_a_metric_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="tftt"):
        decide([Measurement(metric="tftt", value=1.0, is_good=True)], TERMS)


def test_terms_under_which_nothing_measured_would_promote_are_refused() -> None:
    with pytest.raises(ValueError, match="min_good"):
        VerdictTerms(metrics=("ttft",), min_good=0)

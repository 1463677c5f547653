"""What the bench of rollouts simulates is worse where it says so, and judged by measures and
promises together."""

from collections import Counter

import pytest

from controlplane.rollouts.verdict import Verdict
from ops.bench.bench_rollouts import Case, row_of, try_cases


@pytest.mark.parametrize("worse_in", ["attainment", "failures"])
def test_ten_points_are_caught_in_the_first_step_and_none_aborts_nothing(worse_in: str) -> None:
    cases = [Case(points=points, num_requests=1000, worse_in=worse_in) for points in (0, 10)]
    (_, good), (case, bad) = try_cases(cases, num_rollouts=6, seed=1)
    assert {each.verdict for each in good} == {Verdict.UNDECIDED}
    assert Counter((each.verdict, each.step) for each in bad) == {(Verdict.REJECT, 0): 6}
    # failures spend a budget of 99.5 % twenty times too fast: before measures have enough of them
    assert any(each.by_contract for each in bad) is (worse_in == "failures")
    assert row_of(case, bad)[:3] == (worse_in, "10 points", "1000")


def test_without_promises_measures_alone_decide() -> None:
    case = Case(points=10, num_requests=1000, worse_in="failures")
    ((_, ended),) = try_cases([case], num_rollouts=3, seed=1, promises=())
    assert [(each.verdict, each.by_contract) for each in ended] == [(Verdict.REJECT, False)] * 3

"""Bounds hold at every look, and strata keep a changed mix from looking like a change."""

import numpy as np
import pytest

from controlplane.rollouts.analysis.difference import Interval, Stratum, difference
from controlplane.rollouts.analysis.moments import Moments


def shares(stable: tuple[int, int], candidate: tuple[int, int]) -> Stratum:
    return Stratum(Moments.of_share(*stable), Moments.of_share(*candidate))


def apart(*strata: Stratum, sharpest_at: float = 0.02) -> Interval:
    found = difference(strata, alpha=0.01, sharpest_at=sharpest_at, is_share=True)
    assert found is not None
    return found


def test_moments_are_those_of_the_values() -> None:
    values = [1e9 + value for value in (1.0, 2.0, 4.0)]
    found = Moments.of(values)
    assert found.num == 3
    assert found.mean == pytest.approx(1e9 + 7 / 3)
    assert found.squares == pytest.approx(14 / 3)
    assert Moments.of_share(4, 3) == Moments.of([1.0, 1.0, 0.0, 1.0])


def test_the_bounds_are_those_of_the_normal_mixture() -> None:
    """By hand, of one stratum: variance 0.1 a value in both arms, 1000 requests each."""
    moments = (Moments(1000, 0.9, 99.0), Moments(1000, 0.8, 99.0))
    found = apart(Stratum(*moments))
    assert found.estimate == pytest.approx(-0.1)
    # log(1 / 0.01) twice is 9.2103, the ratio 11.5337; 0.02 needs an information of 31,892, of
    # which the mixture begins with 2765; there is 5000
    assert found.high - found.estimate == pytest.approx(0.05640, abs=2e-5)
    assert found.estimate - found.low == pytest.approx(found.high - found.estimate)


def test_requests_that_have_no_like_in_the_other_arm_tell_nothing() -> None:
    both = shares((500, 450), (100, 90))
    assert apart(both, shares((500, 0), (0, 0)), shares((0, 0), (400, 400))) == apart(both)
    lonely = [shares((500, 0), (0, 0)), shares((0, 0), (400, 400))]
    assert difference(lonely, alpha=0.01, sharpest_at=0.02, is_share=True) is None


def test_another_mix_of_easy_and_hard_requests_is_no_difference() -> None:
    """In sum the candidate has 82 % against 58 %."""
    found = apart(shares((1000, 900), (4000, 3600)), shares((4000, 2000), (1000, 500)))
    assert found.estimate == pytest.approx(0, abs=1e-12)


def test_a_thousand_good_ones_are_no_proof_that_none_is_bad() -> None:
    found = apart(shares((1000, 1000), (1000, 1000)))
    assert found.estimate == 0
    assert found.high > 0.003  # three in a thousand may well have been missed


def test_values_without_a_second_one_have_no_spread_to_tell() -> None:
    one = [Stratum(Moments.of([1.0]), Moments.of([2.0]))]
    assert difference(one, alpha=0.01, sharpest_at=0.1, is_share=False) is None


@pytest.mark.parametrize("share", [0.99, 0.8])
def test_of_arms_that_are_equal_one_who_looks_all_the_time_is_wrong_as_rarely_as_allowed(
    share: float,
) -> None:
    """At 10 % allowed: looks after each 50 requests, 400 of them; by a test of fixed size four of
    ten such rollouts would have been thrown out."""
    rng, wrong, num = np.random.default_rng(7), 0, 200
    for _ in range(num):
        good = rng.random((2, 20_000)) < share
        sums = good.cumsum(axis=1)
        for seen in range(200, 20_001, 50):
            stratum = shares((seen, int(sums[0, seen - 1])), (seen, int(sums[1, seen - 1])))
            found = difference([stratum], alpha=0.1, sharpest_at=0.02, is_share=True)
            if found is not None and not found.low <= 0 <= found.high:
                wrong += 1
                break
    assert wrong / num < 0.1

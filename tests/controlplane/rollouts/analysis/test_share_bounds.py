"""Bounds of a share: surely right, however often somebody looks."""

from random import Random

import pytest

from controlplane.rollouts.analysis.share_bounds import least_share, most_share


@pytest.mark.parametrize(
    ("num", "num_bad"), [(1, 0), (1, 1), (100, 0), (100, 3), (100, 100), (10_000, 10)]
)
def test_what_was_seen_lies_within(num: int, num_bad: int) -> None:
    low, high = least_share(num, num_bad, 0.001), most_share(num, num_bad, 0.001)
    assert 0 <= low <= num_bad / num <= high <= 1
    assert most_share(num, num - num_bad, 0.001) == pytest.approx(1 - low)


def test_bounds_close_in_with_more_requests_and_open_with_more_certainty() -> None:
    widths = [most_share(n, n // 20, 0.01) - least_share(n, n // 20, 0.01) for n in (100, 1000)]
    assert widths[1] < widths[0] / 2
    assert least_share(1000, 50, 0.0001) < least_share(1000, 50, 0.01)


def test_few_failures_condemn_nobody_and_twenty_of_twenty_do() -> None:
    assert least_share(3, 3, 0.0001) < 0.06
    assert least_share(20, 20, 0.0001) > 0.5


@pytest.mark.parametrize("true_share", [0.01, 0.3])
def test_the_true_share_is_hardly_ever_outside_at_any_of_many_looks(true_share: float) -> None:
    alpha, num_wrong, chance = 0.1, 0, Random(5)
    for _ in range(100):
        num_bad = 0
        for num in range(1, 801):
            num_bad += chance.random() < true_share
            is_looked_at = num % 40 == 0
            if is_looked_at and not (
                least_share(num, num_bad, alpha) <= true_share <= most_share(num, num_bad, alpha)
            ):
                num_wrong += 1
                break
    assert num_wrong <= 2 * alpha * 100  # each of the two bounds may be wrong that often

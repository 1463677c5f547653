import statistics
from itertools import pairwise

import pytest

from ops.calibration.traffic import Lengths, Mix, at_once, poisson

_MIX = Mix(Lengths(48, 0.9, 2, 300), Lengths(16, 0.7, 1, 64))


def test_arrivals_are_poisson_at_the_rate_that_was_asked_for() -> None:
    arrivals = poisson(_MIX, rate=5.0, seconds=400, seed=1)
    gaps = [later.at - earlier.at for earlier, later in pairwise(arrivals)]
    assert len(arrivals) == pytest.approx(2000, rel=0.1)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)
    assert arrivals[-1].at < 400


def test_lengths_have_their_median_and_stay_within_bounds() -> None:
    crowd = at_once(_MIX, 2000, seed=2)
    prompts = [arrival.num_prompt_tokens for arrival in crowd]
    assert statistics.median(prompts) == pytest.approx(48, rel=0.1)
    assert 2 <= min(prompts) < 6
    assert max(prompts) == 300
    assert all(1 <= arrival.num_output_tokens <= 64 for arrival in crowd)


def test_the_same_seed_is_the_same_traffic() -> None:
    assert poisson(_MIX, 5.0, 20, seed=3) == poisson(_MIX, 5.0, 20, seed=3)
    assert poisson(_MIX, 5.0, 20, seed=3) != poisson(_MIX, 5.0, 20, seed=4)

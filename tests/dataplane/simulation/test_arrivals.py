import itertools
import random

import pytest

from dataplane.simulation.arrivals import ArrivalProcess, Bursts, Poisson, Regular


def times(process: ArrivalProcess, count: int, seed: int = 1) -> list[float]:
    return list(itertools.islice(process.times(random.Random(seed)), count))


def test_regular_arrivals_come_at_multiples() -> None:
    assert times(Regular(0.1), 4) == [0.0, 0.1, 0.2, 0.1 * 3]


def test_poisson_arrivals_have_their_rate_and_no_memory() -> None:
    found = times(Poisson(50.0), 20_000)
    gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.03)
    # Of exponential gaps, a share of 1/e is longer than the mean.
    assert sum(gap > mean for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.01)


def test_bursts_come_in_clusters_of_their_size_and_in_order() -> None:
    bursts = Bursts(rate=0.01, mean_size=20, within=1.0)
    found = times(bursts, 20_000)
    assert found == sorted(found)
    gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
    num_clusters = 1 + sum(gap > 5 for gap in gaps)
    assert len(found) / num_clusters == pytest.approx(20, rel=0.1)
    assert num_clusters / found[-1] == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize(
    "process", [Regular(0.3), Poisson(3), Bursts(rate=1, mean_size=3, within=2)]
)
def test_the_same_seed_gives_the_same_times(process: ArrivalProcess) -> None:
    assert times(process, 100) == times(process, 100)

import numpy as np
import pytest

from dataplane.simulation.fitting.noise import NoiseSource, measure_noise


def _disturbed(
    correlation: float, count: int = 6000
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Lognormal factors, each like the one before it as far as `correlation` says."""
    rng = np.random.default_rng(3)
    scores = [float(rng.normal())]
    for fresh in rng.normal(size=count - 1):
        scores.append(correlation * scores[-1] + (1 - correlation**2) ** 0.5 * float(fresh))
    return np.exp(0.2 * np.array(scores))


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_what_is_drawn_is_like_what_was_measured(correlation: float) -> None:
    factors = _disturbed(correlation)
    noise = measure_noise(factors)
    assert noise.correlation == pytest.approx(correlation, abs=0.05)
    source = NoiseSource(noise, seed=5)
    drawn = np.array([source.draw() for _ in range(20_000)])
    for share in (5, 50, 95):
        assert np.percentile(drawn, share) == pytest.approx(np.percentile(factors, share), rel=0.05)
    assert drawn.mean() == pytest.approx(factors.mean(), rel=0.02)
    assert measure_noise(drawn).correlation == pytest.approx(correlation, abs=0.05)


def test_steps_that_never_differ_have_no_noise() -> None:
    noise = measure_noise(np.ones(100))
    source = NoiseSource(noise, seed=1)
    assert {source.draw() for _ in range(100)} == {1.0}
    assert noise.correlation == 0.0


def test_noise_is_kept_within_what_was_measured() -> None:
    factors = _disturbed(0.3, 500)
    source = NoiseSource(measure_noise(factors), seed=2)
    drawn = [source.draw() for _ in range(10_000)]
    assert min(drawn) >= factors.min()
    assert max(drawn) <= factors.max()

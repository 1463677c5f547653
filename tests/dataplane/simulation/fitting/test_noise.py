import numpy as np
import pytest

from dataplane.simulation.fitting.noise import NoiseSource, measure_noise

_DECODES = np.zeros(20_000, dtype=bool)


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
    noise = measure_noise(factors, _DECODES[: len(factors)])
    assert noise.correlation == pytest.approx(correlation, abs=0.05)
    source = NoiseSource(noise, seed=5)
    drawn = np.array([source.draw(has_prompt=False) for _ in range(20_000)])
    for share in (5, 50, 95):
        assert np.percentile(drawn, share) == pytest.approx(np.percentile(factors, share), rel=0.05)
    assert drawn.mean() == pytest.approx(factors.mean(), rel=0.02)
    assert measure_noise(drawn, _DECODES[: len(drawn)]).correlation == pytest.approx(
        correlation, abs=0.05
    )


def test_steps_that_never_differ_have_no_noise() -> None:
    noise = measure_noise(np.ones(100), _DECODES[:100])
    source = NoiseSource(noise, seed=1)
    assert {source.draw(has_prompt=False) for _ in range(100)} == {1.0}
    assert noise.correlation == 0.0


def test_noise_is_kept_within_what_was_measured() -> None:
    factors = _disturbed(0.3, 500)
    source = NoiseSource(measure_noise(factors, _DECODES[: len(factors)]), seed=2)
    drawn = [source.draw(has_prompt=False) for _ in range(10_000)]
    assert min(drawn) >= factors.min()
    assert max(drawn) <= factors.max()


def test_steps_with_prompt_tokens_differ_by_themselves() -> None:
    rng = np.random.default_rng(4)
    has_prompt = rng.random(4000) < 0.3
    factors = np.where(has_prompt, rng.uniform(0.99, 1.01, 4000), rng.uniform(1.2, 1.4, 4000))
    source = NoiseSource(measure_noise(factors, has_prompt), seed=3)
    assert all(0.99 <= source.draw(has_prompt=True) <= 1.01 for _ in range(1000))
    assert all(1.2 <= source.draw(has_prompt=False) <= 1.4 for _ in range(1000))


def test_a_kind_with_few_steps_differs_as_all_do() -> None:
    has_prompt = np.arange(100) < 5
    noise = measure_noise(np.linspace(0.5, 2.0, 100), has_prompt)
    assert noise.prompt_factors[-1] == 2.0
    assert noise.decode_factors[0] > 0.5

import pytest

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Noise, StepForm, TokensKnot
from dataplane.simulation.fitting.noise import NoiseSource

_FORM = StepForm(
    knots=(
        TokensKnot(num_tokens=1, seconds=0.1),
        TokensKnot(num_tokens=3, seconds=0.2),
        TokensKnot(num_tokens=7, seconds=0.4),
    ),
    per_decode_step=0.01,
    per_context_token=0.001,
    per_prompt_token=0.02,
    per_reread_token=0.0001,
)


def _decodes(count: int, context: int = 0) -> StepPlan:
    return StepPlan(num_decode_steps=count, num_context_tokens=context)


def test_a_step_takes_what_lies_between_the_knots_and_a_share_for_each_part() -> None:
    cost = FittedCost(_FORM)
    assert cost.step_time(_decodes(1)) == pytest.approx(0.1 + 0.01)
    assert cost.step_time(_decodes(2, context=50)) == pytest.approx(0.15 + 0.02 + 0.05)
    mixed = StepPlan(num_decode_steps=1, num_prompt_tokens=2, num_reread_tokens=100)
    assert cost.step_time(mixed) == pytest.approx(0.2 + 0.01 + 0.04 + 0.01)


@pytest.mark.parametrize("count", [8, 1000, 1024, 1025, 5000])
def test_past_the_last_knot_the_line_goes_on_as_before_it(count: int) -> None:
    cost = FittedCost(_FORM)
    expected = 0.4 + (count - 7) * 0.05 + 0.01 * count
    assert cost.step_time(_decodes(count)) == pytest.approx(expected)


def test_the_same_seed_gives_the_same_times_and_another_seed_others() -> None:
    noise = Noise(
        shares=(0.0, 0.5, 1.0),
        decode_factors=(0.5, 1.0, 2.0),
        prompt_factors=(1.0, 1.0, 1.0),
        correlation=0.5,
    )

    def times(seed: int) -> list[float]:
        cost = FittedCost(_FORM, NoiseSource(noise, seed))
        return [cost.step_time(_decodes(1)) for _ in range(5000)]

    assert times(1) == times(1)
    assert times(1) != times(2)

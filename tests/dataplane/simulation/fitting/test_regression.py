import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.simulation.fitting.regression import (
    Shape,
    fit_form,
    fit_shape,
    least_squares,
    predict,
)
from dataplane.simulation.fitting.work import Work, attended_tokens


def _works(count: int, seed: int) -> list[Work]:
    rng = random.Random(seed)
    works = []
    for _ in range(count):
        decodes = rng.choice([0, 1, 2, 4, 7, 15, 31])
        prompt = rng.choice([0, 0, rng.randint(1, 128)]) if decodes else rng.randint(1, 128)
        start = rng.choice([0, 128, 256]) if prompt else 0
        context = sum(rng.randint(1, 500) for _ in range(decodes))
        works.append(Work(prompt, decodes, context, start, attended_tokens(start, prompt)))
    return works


def test_costs_that_are_linear_are_found_exactly() -> None:
    works = _works(300, seed=1)
    seconds = np.array(
        [1.0 + 0.5 * w.num_prompt_tokens + 1.0 * w.num_decode_steps + 0.1 * w.num_reread_tokens
         for w in works]
    )  # fmt: skip
    form = fit_form(works, seconds)
    assert [knot.seconds for knot in form.knots] == pytest.approx([1.0])
    assert form.per_prompt_token == pytest.approx(0.5)
    assert form.per_decode_step == pytest.approx(1.0)
    assert form.per_reread_token == pytest.approx(0.1)
    assert form.per_context_token == pytest.approx(0, abs=1e-9)
    assert form.per_attended_token == pytest.approx(0, abs=1e-9)


def test_a_machine_that_goes_in_stairs_gets_knots() -> None:
    works = _works(600, seed=2)
    stairs = np.interp([w.num_tokens for w in works], [1, 2, 8, 160], [0.06, 0.12, 0.15, 0.6])
    form = fit_form(works, stairs)
    assert len(form.knots) > 4
    assert np.abs(predict(form, works) / stairs - 1).max() < 0.05


def test_more_rows_that_take_less_are_believed_only_where_they_do() -> None:
    works = [Work(0, 1 + number % 8, 0, 0, 0.0) for number in range(400)]
    rng = np.random.default_rng(5)
    by_rows: dict[float, float] = {
        1: 0.06,
        2: 0.11,
        3: 0.15,
        4: 0.13,
        5: 0.135,
        6: 0.14,
        7: 0.145,
        8: 0.15,
    }
    seconds = np.array([by_rows[w.num_decode_steps] for w in works])
    dipping = fit_form(works, seconds * rng.lognormal(0.0, 0.03, len(works)))
    assert predict(dipping, works[2:4]) == pytest.approx([0.15, 0.13], rel=0.03)
    level = np.array([0.05 + 0.001 * w.num_decode_steps for w in works])
    rising = fit_form(works, level * rng.lognormal(0.0, 0.03, len(works)))
    heights = predict(rising, works[:8])
    assert list(heights) == sorted(heights)


def test_steps_that_took_ten_times_as_long_do_not_bend_the_fit() -> None:
    works = _works(400, seed=3)
    seconds = np.array(
        [0.05 + 0.002 * w.num_decode_steps + 0.004 * w.num_prompt_tokens for w in works]
    )
    seconds[::20] *= 10
    form = fit_form(works, seconds)
    assert form.per_prompt_token == pytest.approx(0.004, rel=0.01)
    assert form.per_decode_step == pytest.approx(0.002, rel=0.03)
    assert form.knots[0].seconds == pytest.approx(0.05, rel=0.03)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**16))
def test_no_coefficient_is_negative_and_the_last_stretch_does_not_fall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    works = _works(120, seed)
    form = fit_form(works, rng.lognormal(-2.0, 1.0, len(works)))
    assert all(
        getattr(form, name) >= 0 for name in form.__struct_fields__ if name.startswith("per_")
    )
    seconds = [knot.seconds for knot in form.knots]
    assert min(seconds) >= 0
    assert seconds[-1] >= max(seconds[-2:])


@given(seed=st.integers(0, 2**16), num=st.integers(1, 8))
def test_least_squares_meets_the_conditions_of_an_optimum(seed: int, num: int) -> None:
    rng = np.random.default_rng(seed)
    columns, target = rng.normal(size=(20, num)), rng.normal(size=20)
    found = least_squares(columns, target)
    pull = columns.T @ (target - columns @ found)
    assert (found >= 0).all()
    assert (pull <= 1e-6).all()
    assert np.abs(pull[found > 0]).max(initial=0.0) < 1e-6


def test_means_of_a_disturbed_machine_take_together_what_was_measured() -> None:
    """Every fifth took three times as long: robust coefficients alone would pass over it."""
    works = _works(400, seed=4)
    plain = np.array([1.0 + 0.02 * w.num_prompt_tokens + 0.1 * w.num_decode_steps for w in works])
    disturbed = plain * np.where(np.arange(400) % 5 == 0, 3.0, 1.0)
    counts = np.array([1.0 + number % 40 for number in range(400)])
    robust = predict(fit_shape(Shape(), works, disturbed), works)
    kept = predict(fit_shape(Shape(), works, disturbed, counts), works)
    assert counts @ kept == pytest.approx(counts @ disturbed)
    assert counts @ robust < 0.9 * (counts @ disturbed)
    assert kept / kept.mean() == pytest.approx(plain / plain.mean(), rel=0.1)

"""Worse is drawn to the right, whatever its sign, on the scale of the margin."""

from dataclasses import replace

import pytest

from controlplane.api.rollout_views import ComparisonView, IntervalView
from controlplane.console.interval_bar import WIDTH, draw_interval, margin_place, zero_place


def compared(
    estimate: float, low: float, high: float, *, more_is_worse: bool = True
) -> ComparisonView:
    return ComparisonView(
        measure="ttft",
        says="",
        more_is_worse=more_is_worse,
        is_share=False,
        margin=0.1,
        num_stable=900,
        num_candidate=300,
        num_unmatched=0,
        applies=True,
        is_good=None,
        apart=IntervalView(estimate=estimate, low=low, high=high),
    )


def test_alike_is_in_the_middle_and_the_margin_beyond_it() -> None:
    bar = draw_interval(compared(0.0, -0.1, 0.1))
    assert bar is not None
    assert bar.estimate == zero_place() == WIDTH / 2
    assert bar.end == margin_place() > zero_place()
    assert bar.start == pytest.approx(WIDTH - bar.end)


@pytest.mark.parametrize(("more_is_worse", "sign"), [(True, 1), (False, -1)])
def test_worse_is_to_the_right(more_is_worse: bool, sign: int) -> None:
    ends = sorted((sign * 0.11, sign * 0.19))
    bar = draw_interval(compared(sign * 0.15, *ends, more_is_worse=more_is_worse))
    assert bar is not None
    assert margin_place() < bar.start < bar.estimate < bar.end
    assert (bar.goes_on_left, bar.goes_on_right) == (False, False)


def test_what_lies_far_out_ends_at_the_edge_and_goes_on() -> None:
    bar = draw_interval(compared(0.5, -9.0, 9.0))
    assert bar is not None
    assert (bar.start, bar.estimate, bar.end) == (0, WIDTH, WIDTH)
    assert (bar.goes_on_left, bar.goes_on_right) == (True, True)


def test_of_too_few_nothing_is_drawn() -> None:
    assert draw_interval(replace(compared(0, 0, 0), apart=None)) is None

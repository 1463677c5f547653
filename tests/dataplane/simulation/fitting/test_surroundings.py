import dataclasses

import msgspec
import pytest

from dataplane.simulation.distributions import Constant, MedianAndTail
from dataplane.simulation.fitting.document import Fit, FitFileError, Overheads, Spread
from dataplane.simulation.fitting.surroundings import cold_start_of, overheads_of
from dataplane.simulation.gateway_overheads import OverheadPlan
from tests.dataplane.simulation.fitting.known_fit import known_fit


def _spread(median: float, p95: float) -> Spread:
    return Spread(median=median, p95=p95, num_samples=20)


_FIT = known_fit(
    overheads=Overheads(
        arrival_to_admission=_spread(0.002, 0.004),
        admission_to_idle_engine=_spread(0.005, 0.009),
        between_steps=_spread(0.001, 0.002),
        selection_to_first_write=_spread(0.003, 0.006),
    ),
    cold_start={"load": _spread(12.0, 14.0), "warm_up": _spread(3.0, 3.0)},
)


def test_overheads_are_drawn_as_they_were_measured() -> None:
    assert overheads_of(_FIT, is_noisy=True) == OverheadPlan(
        before_admission=MedianAndTail(median=0.002, p95=0.004),
        before_submission=MedianAndTail(median=0.004, p95=0.008),
        before_first_write=MedianAndTail(median=0.003, p95=0.006),
    )


def test_without_noise_overheads_are_their_medians() -> None:
    plan = overheads_of(_FIT, is_noisy=False)
    assert plan is not None
    assert plan.before_admission == Constant(0.002)
    assert plan.before_submission == Constant(0.004)


def test_what_lies_between_steps_is_no_overhead_before_them_once_more() -> None:
    overheads = msgspec.structs.replace(_FIT.overheads, between_steps=_spread(0.1, 0.2))
    plan = overheads_of(msgspec.structs.replace(_FIT, overheads=overheads), is_noisy=True)
    assert plan is not None
    assert plan.before_submission == Constant(0.0)


def test_a_fit_that_measured_no_overhead_adds_none() -> None:
    assert overheads_of(known_fit(), is_noisy=True) is None


def test_a_start_takes_the_median_of_each_stage() -> None:
    cold_start = cold_start_of(_FIT)
    assert (cold_start.load, cold_start.warm_up) == (12.0, 3.0)
    assert dataclasses.astuple(cold_start) == (0, 12.0, 0, 3.0)


def test_a_stage_that_nobody_knows_is_named() -> None:
    fit: Fit = msgspec.structs.replace(_FIT, cold_start={"bake": _spread(1.0, 1.0)})
    with pytest.raises(FitFileError, match=r"the stage bake, which is none of acquire, load"):
        cold_start_of(fit)

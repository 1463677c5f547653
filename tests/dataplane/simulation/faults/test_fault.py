import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.pace import PaceCurve, PacedCost, Slowdown
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.faults.process import HungReplica, StalledReplica

TIMES = st.floats(0, 100, allow_nan=False)


def test_a_fault_lasts_from_its_moment_until_just_before_its_end() -> None:
    fault = Fault(at=10, duration=5)
    assert [fault.is_active(now) for now in (9.9, 10, 14.9, 15)] == [False, True, True, False]
    assert Fault(at=10).is_active(1e9)


@pytest.mark.parametrize("field", ["at", "duration", "intensity"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_times_and_intensities_that_cannot_be_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is"):
        Fault(**{field: value})  # type: ignore[arg-type]


@given(st.integers(), st.floats(0, 1), st.floats(0, 1), st.text())
def test_what_a_weaker_fault_hits_a_stronger_one_hits_too(
    seed: int, one: float, other: float, name: str
) -> None:
    weak, strong = (Fault(intensity=i, seed=seed) for i in sorted((one, other)))
    assert not weak.hits(name) or strong.hits(name)


def test_draws_are_even_and_independent_of_other_faults() -> None:
    draws = [Fault(seed=1).draw(n) for n in range(4000)]
    assert abs(sum(draws) / len(draws) - 0.5) < 0.02
    others = [Fault(seed=2).draw(n) for n in range(4000)]
    assert abs(sum(a * b for a, b in zip(draws, others, strict=True)) / 4000 - 0.25) < 0.02


@given(TIMES, TIMES, st.lists(st.tuples(TIMES, TIMES, st.floats(0.01, 1)), max_size=4))
def test_work_done_in_two_parts_takes_as_long_as_in_one(
    work: float, now: float, spans: list[tuple[float, float, float]]
) -> None:
    curve = PaceCurve(Slowdown(start, start + length, pace) for start, length, pace in spans)
    half = curve.time_for(work / 2, now)
    whole = half + curve.time_for(work / 2, now + half)
    assert curve.time_for(work, now) == pytest.approx(whole, rel=1e-6, abs=1e-6)
    assert curve.time_for(work, now) >= work or curve.time_for(work, now) == pytest.approx(work)


@given(TIMES, TIMES, st.floats(0, 5), st.floats(0, 5))
def test_a_stronger_stall_never_makes_a_step_shorter(
    work: float, now: float, one: float, other: float
) -> None:
    weak, strong = (
        PaceCurve([StalledReplica(at=20, duration=30, intensity=i).slowdown()])
        for i in sorted((one, other))
    )
    assert weak.time_for(work, now) <= strong.time_for(work, now) + 1e-9


@given(TIMES, TIMES)
def test_intensity_0_leaves_every_step_its_time_to_the_last_digit(work: float, now: float) -> None:
    for fault in (StalledReplica(at=3, intensity=0), HungReplica(at=3, intensity=0)):
        assert PaceCurve([fault.slowdown()]).time_for(work, now) == work


def test_a_step_under_way_when_a_stall_ends_goes_on_at_its_own_pace() -> None:
    curve = PaceCurve([Slowdown(10, 20, 0.5)])
    assert curve.time_for(2, 19) == 1 + 1.5
    assert curve.time_for(2, 9) == 1 + 2
    assert curve.time_for(2, 30) == 2


def test_a_hang_without_an_end_lasts_for_ever_and_one_with_an_end_until_then() -> None:
    assert PaceCurve([Slowdown(10, math.inf, 0)]).time_for(1, 12) == math.inf
    assert PaceCurve([Slowdown(10, 40, 0)]).time_for(1, 12) == 28 + 1


def test_a_plan_without_faults_hands_back_what_it_was_given() -> None:
    cost = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)
    plan = FaultPlan([StalledReplica(intensity=0), HungReplica(duration=0)])
    assert not plan
    assert plan.cost("r-1", cost, lambda: 0.0) is cost


def test_a_fault_of_one_replica_leaves_the_others_alone() -> None:
    cost = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)
    plan = FaultPlan([StalledReplica(replica="r-2", intensity=1)])
    assert plan.cost("r-1", cost, lambda: 0.0) is cost
    slow = plan.cost("r-2", cost, lambda: 0.0)
    assert isinstance(slow, PacedCost)
    assert slow.step_time(StepPlan()) == 2

import pytest

from dataplane.simulation.cost import LinearCost
from dataplane.simulation.faults.placement import (
    DraftDisagreement,
    StickyRouting,
    TransferLimit,
    WrongPhaseSplit,
)
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.link import Link
from dataplane.simulation.phase_split import PhaseDemand, PhaseSplit, SplitService
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from dataplane.simulation.timeline import Timeline

GIGABIT = 10**9


def arrivals_over_link(*faults: TransferLimit) -> list[float]:
    """When ten transfers of 1 Gbit arrive, one a second, over 2 Gbit/s."""
    timeline = Timeline()
    link = Link(timeline, 2 * GIGABIT)
    FaultPlan(faults).link(timeline, link)
    arrived: list[float] = []
    for second in range(10):
        timeline.at(second, lambda: link.send(GIGABIT / 8, lambda: arrived.append(timeline.now)))
    timeline.run()
    return arrived


def test_a_narrower_link_lets_transfers_pile_up_and_a_wide_one_again_lets_them_drain() -> None:
    well = arrivals_over_link()
    assert well == [second + 0.5 for second in range(10)]
    limited = arrivals_over_link(TransferLimit(at=3, duration=4, intensity=9))
    assert limited[:3] == well[:3]
    assert limited[3] > 7
    assert limited[-1] == pytest.approx(9.5, abs=1.0)


def test_the_more_a_link_is_limited_the_later_everything_is_there() -> None:
    last = [arrivals_over_link(TransferLimit(at=2, intensity=i))[-1] for i in (0, 0.5, 1, 4)]
    assert last == sorted(last)
    assert last[0] == 9.5
    assert last[-1] > 15


def num_prefills_waiting(*faults: WrongPhaseSplit) -> tuple[int, int]:
    """Behind which phase how many wait, after 40 s of four requests a second."""
    timeline = Timeline()
    demand = PhaseDemand(prefill=0.4, decode=1.2)
    split = FaultPlan(faults).phase_split(PhaseSplit(prefill=2, decode=6))
    service = SplitService(timeline, split, demand)
    for number in range(160):
        timeline.at(number / 4, lambda: service.submit(lambda: None))
    timeline.run(until=40.0)
    return service.prefill.num_waiting, service.decode.num_waiting


def test_units_of_the_wrong_phase_leave_the_other_one_waiting() -> None:
    waiting = [num_prefills_waiting(WrongPhaseSplit(intensity=i)) for i in (0, 0.34, 0.67)]
    decodes = [decode for _, decode in waiting]
    assert decodes == sorted(decodes)
    assert waiting[0] == (0, 0)
    assert decodes[-1] > 20
    assert all(prefill == 0 for prefill, _ in waiting)


def test_one_unit_of_each_phase_is_left() -> None:
    assert WrongPhaseSplit(intensity=1).split(PhaseSplit(prefill=2, decode=6)) == PhaseSplit(
        prefill=7, decode=1
    )
    assert WrongPhaseSplit(intensity=1).split(PhaseSplit(prefill=3, decode=1)) == PhaseSplit(
        prefill=1, decode=3
    )


def test_a_favourite_has_all_its_slots_and_the_others_fewer_the_more_intense_it_is() -> None:
    slots = {"a": 10, "b": 10, "c": None}
    assert StickyRouting(replica="b", intensity=0.4).believed_held(slots) == {
        "a": 4,
        "c": 400_000,
    }
    assert StickyRouting(replica="b", intensity=7).believed_held(slots)["a"] == 10
    assert "a" not in StickyRouting(replica="gone").believed_held(slots)
    assert StickyRouting().believed_held({}) == {}


def test_drafts_agree_again_as_planned_when_the_last_disagreement_is_over() -> None:
    timeline = Timeline()
    plain = LinearCost(iteration=0.02, per_prompt_token=0.0004, per_decode_step=0.001)
    cost = SpeculativeCost(plain, SpeculativeRound(draft_steps=4, draft_cost=0.1), 0.8)
    faults = [
        DraftDisagreement(at=1, duration=4, intensity=0.5),
        DraftDisagreement(at=3, duration=6, intensity=0.75),
    ]
    FaultPlan(faults).speculation("a", timeline, cost)
    seen = []
    for at in (0, 2, 4, 6, 10):
        timeline.run(until=at)
        seen.append(cost.acceptance)
    assert seen == [0.8, 0.4, 0.1, 0.2, 0.8]

import pytest

from dataplane.simulation.phase_split import (
    Phase,
    PhaseDemand,
    PhaseSplit,
    SplitService,
    UnitPool,
    best_split,
)
from dataplane.simulation.timeline import Timeline

LONG_PROMPTS = PhaseDemand(prefill=1.5, decode=0.5)


def test_work_without_a_unit_waits_in_order() -> None:
    timeline = Timeline()
    pool = UnitPool(timeline, 2)
    ended: list[tuple[str, float]] = []
    for name, seconds in (("a", 3), ("b", 1), ("c", 1), ("d", 1)):
        pool.submit(seconds, lambda name=name: ended.append((name, timeline.now)))  # type: ignore[misc]
    assert (pool.num_free, pool.num_waiting) == (0, 2)

    timeline.run()

    assert ended == [("b", 1), ("c", 2), ("a", 3), ("d", 3)]
    assert (pool.num_free, pool.num_waiting) == (2, 0)


@pytest.mark.parametrize(
    "split", [PhaseSplit(prefill=2, decode=6), PhaseSplit(prefill=4, decode=12)]
)
def test_a_service_ends_as_many_as_its_short_phase_sustains(split: PhaseSplit) -> None:
    timeline = Timeline()
    service = SplitService(timeline, split, LONG_PROMPTS)
    ended: list[float] = []
    for _ in range(300):
        service.submit(lambda: ended.append(timeline.now))
    timeline.run()

    per_second = len(ended) / (ended[-1] - LONG_PROMPTS.decode)
    assert per_second == pytest.approx(split.sustainable_per_second(LONG_PROMPTS))
    assert split.short_phase(LONG_PROMPTS) is Phase.PREFILL


def test_what_waits_waits_in_front_of_the_short_phase() -> None:
    timeline = Timeline()
    service = SplitService(timeline, PhaseSplit(prefill=2, decode=6), LONG_PROMPTS)
    for _ in range(100):
        service.submit(lambda: None)
    timeline.run(until=10)

    assert service.prefill.num_waiting > 0
    assert service.decode.num_waiting == 0
    assert service.decode.num_free >= 4


def test_the_best_split_follows_the_demand() -> None:
    assert best_split(8, PhaseDemand(prefill=0.5, decode=1.5)) == PhaseSplit(prefill=2, decode=6)
    assert best_split(8, LONG_PROMPTS) == PhaseSplit(prefill=6, decode=2)
    assert PhaseSplit(prefill=2, decode=6).short_phase(PhaseDemand(prefill=0.1, decode=9)) is (
        Phase.DECODE
    )


def test_a_phase_without_units_serves_nobody() -> None:
    with pytest.raises(ValueError, match="one of each"):
        PhaseSplit(prefill=0, decode=8)
    with pytest.raises(ValueError, match="cannot be split"):
        best_split(1, LONG_PROMPTS)

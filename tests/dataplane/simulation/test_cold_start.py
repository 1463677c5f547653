import pytest

from dataplane.simulation.cold_start import ColdStart, StartStage, ready_overlap
from dataplane.simulation.timeline import Timeline

START = ColdStart(acquire=2, load=10, compile=5, warm_up=3)


def test_stages_follow_each_other_and_the_last_is_ready() -> None:
    timeline = Timeline()
    seen: list[tuple[float, StartStage]] = []
    timeline.at(
        100, lambda: START.begin(timeline, lambda stage: seen.append((timeline.now, stage)))
    )

    timeline.run()

    assert seen == [
        (100, StartStage.ACQUIRE),
        (102, StartStage.LOAD),
        (112, StartStage.COMPILE),
        (117, StartStage.WARM_UP),
        (120, StartStage.READY),
    ]


def test_a_start_that_takes_no_time_is_ready_at_once() -> None:
    timeline = Timeline()
    seen: list[StartStage] = []
    ColdStart().begin(timeline, seen.append)
    timeline.run()

    assert (timeline.now, seen) == (0, list(StartStage))


def test_an_overlap_is_never_less_than_nothing() -> None:
    assert [ready_overlap(20, after) for after in (0, 19.5, 20, 60)] == [20, 0.5, 0, 0]


def test_a_stage_cannot_take_less_than_nothing() -> None:
    with pytest.raises(ValueError, match="cannot take less than 0"):
        ColdStart(load=-1)

from functools import partial

import pytest

from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.faults.placement import TransferLimit
from dataplane.simulation.timeline import Timeline
from dataplane.simulation.weights import SharedLink, WeightsOverLink

GIGABIT, GIGABYTE = 10**9, 10**9


def starts(*begin_at: float, limit: TransferLimit | None = None) -> list[dict[StartStage, float]]:
    """When each start entered each stage: 16 GB over 16 Gbit/s are 8 s."""
    timeline = Timeline()
    link = SharedLink(16 * GIGABIT)
    start = WeightsOverLink(
        acquire=1, load=2, compile=3, warm_up=4, link=link, num_bytes=16 * GIGABYTE
    )
    if limit is not None:
        limit.install(timeline, link.on(timeline))
    entered: list[dict[StartStage, float]] = [{} for _ in begin_at]

    def begin(number: int) -> None:
        start.begin(timeline, lambda stage: entered[number].setdefault(stage, timeline.now))

    for number, at in enumerate(begin_at):
        timeline.at(at, partial(begin, number))
    timeline.run()
    return entered


def test_weights_take_what_the_link_takes_and_the_stages_keep_their_order() -> None:
    [entered] = starts(5)
    assert list(entered) == list(StartStage)
    assert list(entered.values()) == [5, 6, 16, 19, 23]


def test_without_weights_it_is_a_cold_start() -> None:
    timeline = Timeline()
    seen: list[tuple[float, StartStage]] = []
    for start in (
        ColdStart(acquire=1, load=2, compile=3, warm_up=4),
        WeightsOverLink(
            acquire=1, load=2, compile=3, warm_up=4, link=SharedLink(GIGABIT), num_bytes=0
        ),
    ):
        start.begin(timeline, lambda stage: seen.append((timeline.now, stage)))
        timeline.run()
    half = len(seen) // 2
    assert seen[half:] == [(at + 10, stage) for at, stage in seen[:half]]


def test_starts_at_once_wait_for_each_other_s_weights() -> None:
    first, second, third = starts(0, 0, 0)
    assert [s[StartStage.COMPILE] for s in (first, second, third)] == [11, 19, 27]
    assert {s[StartStage.LOAD] for s in (first, second, third)} == {1}


def test_a_limited_link_makes_every_start_late_and_no_other_stage_longer() -> None:
    ready = []
    for intensity in (0, 1, 3):
        [entered] = starts(0, limit=TransferLimit(intensity=intensity))
        assert entered[StartStage.READY] - entered[StartStage.COMPILE] == 7
        ready.append(entered[StartStage.READY])
    assert ready == [18, 26, 42]


def test_sizes_and_stages_below_0_are_refused() -> None:
    with pytest.raises(ValueError, match="less than 0"):
        WeightsOverLink(link=SharedLink(1), num_bytes=-1)

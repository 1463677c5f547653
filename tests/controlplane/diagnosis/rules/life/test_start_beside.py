"""One start beside another's: who is compared with whom, and for how long it matters."""

from collections.abc import Iterable

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.rules.life.startup import STARTUP_SLOW
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import Window
from tests.controlplane.diagnosis.rules.evidence import reckoned


def _loads(*loads: tuple[str, float, float | None], end: float = 90) -> Window:
    """Seconds of a load, and when it ended, of each replica's log."""
    events = (
        LogEvent(
            kind=LogKind.WEIGHTS_LOADED,
            index=index,
            line=f"Loading weights took {seconds:.2f} seconds",
            at=at,
            fields={"seconds": seconds},
            place=place,
        )
        for index, (place, seconds, at) in enumerate(loads)
    )
    return Window(start=0, end=end, events=tuple(events))


def test_a_stage_that_took_one_replica_much_longer_than_another_is_a_slow_start() -> None:
    verdict = STARTUP_SLOW.judge(_loads(("a", 4, 10), ("b", 32, 40)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "loading weights"
    assert {32, 4} <= reckoned(verdict)


def test_starts_that_are_alike_or_alone_are_not_slow() -> None:
    assert STARTUP_SLOW.judge(_loads(("a", 30, 40), ("b", 34, 40))) is None
    assert STARTUP_SLOW.judge(_loads(("a", 1, 2), ("b", 4, 5))) is None
    assert STARTUP_SLOW.judge(_loads(("a", 100, 100))) is None


def test_a_cold_and_a_warm_start_of_one_engine_are_not_held_against_each_other() -> None:
    assert STARTUP_SLOW.judge(_loads(("engine.log", 45, 55), ("engine.log", 9, 80))) is None
    nobody_says = (("", 45, 55), ("", 9, 80))
    assert STARTUP_SLOW.judge(_loads(*nobody_says)) is None


def test_of_a_replica_that_started_again_the_newest_start_counts() -> None:
    again = (("a", 4, 10), ("b", 45, 50), ("b", 5, 80))
    assert STARTUP_SLOW.judge(_loads(*again)) is None


def test_a_slow_start_that_is_long_over_is_nothing_to_wait_for() -> None:
    assert STARTUP_SLOW.judge(_loads(("a", 4, 10), ("b", 32, 40), end=3600)) is None
    assert STARTUP_SLOW.judge(_loads(("a", 4, None), ("b", 32, None))) is None


def _pages(seconds: float, place: str, moments: Iterable[int]) -> list[Snapshot]:
    text = (
        'sglang:num_running_reqs{{model_name="m"}} 3\n'
        'sglang:startup_time_seconds{{phase="load_weight"}} {}\n'
    )
    return [
        Snapshot(at=at, text=text.format(seconds), place=place, labels={"replica": place})
        for at in moments
    ]


def test_stages_on_a_page_count_where_the_page_came_while_others_were_watched() -> None:
    """Gauges of the start stay as long as the process lives."""
    first = _pages(20, "a", range(0, 80, 5))
    came_up = join([series_of([*first, *_pages(45, "b", range(40, 80, 5))])])
    verdict = STARTUP_SLOW.judge(came_up)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "load weight"
    has_run = join([series_of([*first, *_pages(45, "b", range(0, 80, 5))])])
    assert STARTUP_SLOW.judge(has_run) is None

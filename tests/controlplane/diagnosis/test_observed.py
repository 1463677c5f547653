"""What our own look saw is known as that, and says nothing about what anybody reads or asks."""

from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

CAME_AND_WENT = (
    series(Signal.RUNNING, 0, 0, 0, every=15.0),
    series(Signal.FINISHED, 100, 130, 160, every=15.0),
)


def test_how_often_a_server_was_scraped_makes_nobody_read_its_gauges() -> None:
    told_by_us = facts_of({"scrape_interval_s": 15}, 30.0, is_observed=True)

    assert MISREAD.judge(window(*CAME_AND_WENT, told_by_us)) is None
    somebody = told(ticket="running is broken, always 0")
    assert MISREAD.judge(window(*CAME_AND_WENT, somebody)) is not None


def test_a_scrape_that_failed_makes_nobody_read_its_gauges() -> None:
    failed, _ = told_of_failures([FailedScrape(15.0, "a:8000", "no answer within 5 s")], 60)

    assert all(fact.is_observed for fact in failed)
    assert MISREAD.judge(window(*CAME_AND_WENT, failed)) is None

"""A token for each between two scrapes is one step, where scrapes are no further apart than one."""

import pytest

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.single_steps import shows_single_steps
from controlplane.diagnosis.views.symptoms import symptoms
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window


def _crawls(a_second: float, *, every: float, steps_a_scrape: float | None = None) -> Window:
    """Four requests that get `a_second` tokens together, and nothing else that is wrong."""
    count = int(60 / every) + 1
    parts = [
        series(Signal.RUNNING, *[4] * count, every=every),
        series(Signal.WAITING, *[0] * count, every=every),
        series(Signal.KV_USAGE, *[0.1] * count, every=every),
        series(Signal.PREEMPTIONS, *[0] * count, every=every),
        series(
            Signal.GENERATION_TOKENS,
            *[100 + 4 * int(at * every * a_second / 4) for at in range(count)],
            every=every,
        ),
    ]
    if steps_a_scrape is not None:
        steps = [int(at * steps_a_scrape) for at in range(count)]
        parts.append(series(Signal.STEPS, *steps, every=every))
    return window(*parts)


@pytest.mark.parametrize(("a_second", "every"), [(1.6, 5.0), (1.2, 5.0), (0.8, 10.0)])
def test_a_crawl_that_is_scraped_seldom_is_no_health(a_second: float, every: float) -> None:
    found = _crawls(a_second, every=every)
    assert not shows_single_steps(activity_of(found))
    assert symptoms(activity_of(found))
    assert diagnose(found, BUILT_IN_RULES).mechanism is not Mechanism.HEALTHY


def test_steps_of_two_seconds_that_are_scraped_each_second_are_single() -> None:
    assert shows_single_steps(activity_of(_crawls(2.0, every=1.0)))


def test_counted_steps_say_it_whatever_the_distance_of_scrapes() -> None:
    assert shows_single_steps(activity_of(_crawls(1.3, every=3.0, steps_a_scrape=1.0)))
    assert not shows_single_steps(activity_of(_crawls(2.6, every=3.0, steps_a_scrape=3.0)))

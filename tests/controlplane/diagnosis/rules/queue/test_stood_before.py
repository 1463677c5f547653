"""How long an engine stood before the first reading on which it runs nobody."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.blocked import BLOCKED
from controlplane.diagnosis.rules.queue.stuck import Stuck, stuck_of
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import fact, series, window
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms


def pages(tokens: float, *, ran: float = 1, wait: tuple[float, float] = (1, 1)) -> list[Series]:
    """Two, a minute apart: first somebody runs, then nobody."""
    return [
        series(Signal.RUNNING, ran, 0, every=60),
        series(Signal.WAITING, *wait, every=60),
        series(Signal.KV_USAGE, 0.03, 0, every=60),
        series(Signal.GENERATION_TOKENS, 100, 100 + tokens, every=60),
    ]


def stuck(seen: Window) -> Stuck:
    found = stuck_of(activity_of(seen))
    assert found is not None
    return found


def test_an_engine_of_unknown_pace_is_not_known_to_have_stood() -> None:
    slow = window(*pages(60), fact("max_num_seqs", 4), fact("in_flight", 1, at=60))
    assert stuck(slow).seconds == 0
    verdict = BLOCKED.judge(slow)
    assert verdict is None or verdict.confidence < Confidence.LIKELY


def test_by_its_own_gaps_few_tokens_are_a_minute_of_work_or_none() -> None:
    seen = window(*pages(60))
    slow = with_histograms(seen, histogram(Signal.ITL, {1.0: 0}, {1.0: 60}, every=60))
    assert stuck(slow).seconds == 0
    quick = with_histograms(seen, histogram(Signal.ITL, {0.05: 0}, {0.05: 60}, every=60))
    assert stuck(quick).seconds == 57


def test_by_its_pace_before_few_tokens_are_a_minute_of_work_or_none() -> None:
    def seen(tokens_a_minute: float) -> Window:
        counted = (0, tokens_a_minute, 2 * tokens_a_minute)
        return window(
            series(Signal.RUNNING, 1, 1, 1, 0, every=60),
            series(Signal.WAITING, 1, 1, 1, 1, every=60),
            series(Signal.GENERATION_TOKENS, *counted, counted[-1] + 60, every=60),
        )

    assert stuck(seen(60)).seconds == 0
    assert stuck(seen(1200)).seconds == 57


def test_many_that_are_left_waiting_beside_free_seats_show_it_too() -> None:
    left = pages(44, ran=4, wait=(461, 473))
    assert stuck(window(*left, fact("max_num_seqs", 256))).seconds > 50
    assert stuck(window(*left)).seconds == 0, "nobody knows how many may run"
    let_in = pages(44, ran=4, wait=(473, 461))
    assert stuck(window(*let_in, fact("max_num_seqs", 256))).seconds == 0

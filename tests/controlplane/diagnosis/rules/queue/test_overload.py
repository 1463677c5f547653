from dataclasses import replace

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.pace.underfilled import UNDERFILLED
from controlplane.diagnosis.rules.queue.overload import OVERLOAD
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, said, series, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned, weighed


def _busy(*, waiting: tuple[float, ...] = (180, 184, 190, 184)) -> tuple[Series, ...]:
    return (
        series(Signal.RUNNING, 72, 72, 72, 72),
        series(Signal.WAITING, *waiting),
        series(Signal.GENERATION_TOKENS, 1000, 6000, 11000, 16000),
        series(Signal.FINISHED, 10, 20, 30, 40),
    )


def test_a_full_cache_and_a_queue_that_stays_while_tokens_come_is_overload() -> None:
    verdict = OVERLOAD.judge(
        window(
            *_busy(),
            series(Signal.KV_USAGE, 1, 1, 1, 1),
            series(Signal.PREEMPTIONS, 3, 3, 4, 4),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "the KV cache is full"
    assert Mechanism.CACHE_THRASH in weighed(verdict)


def test_all_slots_taken_is_a_limit_too() -> None:
    verdict = OVERLOAD.judge(
        window(
            series(Signal.RUNNING, 4, 4, 4),
            series(Signal.WAITING, 11, 12, 14),
            series(Signal.GENERATION_TOKENS, 0, 400, 800),
            fact("slots", 4),
            engine="llama.cpp",
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "all 4 seats are taken"


def test_a_seat_that_is_free_between_two_steps_is_still_taken() -> None:
    verdict = OVERLOAD.judge(
        window(
            series(Signal.RUNNING, *(10 * [4]), 3, 2),
            series(Signal.WAITING, *(6 * [36, 35])),
            series(Signal.GENERATION_TOKENS, *range(0, 360, 30)),
            series(Signal.KV_USAGE, *(6 * [0.05, 0.06])),
            series(Signal.SEATS, *(12 * [4])),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_seats_that_emptied_are_free() -> None:
    now = activity_of(
        window(
            series(Signal.RUNNING, 4, 4, 4, 4, 2, 1, 1, 1),
            series(Signal.SEATS, 4, 4, 4, 4, 4, 4, 4, 4),
        )
    )
    assert now.has_all_seats_taken is False


def test_a_batch_that_stands_still_over_many_readings_shows_its_limit() -> None:
    verdict = OVERLOAD.judge(
        window(
            series(Signal.RUNNING, *[5] * 4, *[48] * 12, every=2),
            series(Signal.GATEWAY_QUEUED, *[0] * 4, *range(100, 700, 50), every=2),
            series(Signal.GENERATION_TOKENS, *range(0, 16000, 1000), every=2),
            series(Signal.KV_USAGE, *[0.5] * 16, every=2),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert "stands at 48" in verdict.detail


def test_more_that_arrives_than_is_done_needs_no_limit_that_is_known() -> None:
    found = window(
        series(Signal.RUNNING, 8, 8, 8, every=30),
        series(Signal.WAITING, 21, 159, 297, every=30),
        series(Signal.KV_USAGE, 0.07, 0.07, 0.07, every=30),
        series(Signal.FINISHED, 2000, 2162, 2324, every=30),
        fact("offered_rps", 10, unit=Unit.PER_SECOND),
        fact("finished_rps", 5.4, unit=Unit.PER_SECOND),
    )
    verdict = OVERLOAD.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert {("offered_rps", "10"), ("finished_rps", "5.4")} <= cited(found, verdict)


def test_without_any_limit_it_asks_for_the_seats() -> None:
    verdict = OVERLOAD.judge(
        window(
            series(Signal.RUNNING, 1, 1, 1, 1),
            series(Signal.WAITING, 3, 3, 3, 3),
            series(Signal.KV_USAGE, 0.03, 0.03, 0.03, 0.03),
            series(Signal.GENERATION_RATE, 45, 46, 45, 46),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("seat limit" in need for need in verdict.needs)


def test_a_single_reading_is_no_state() -> None:
    verdict = OVERLOAD.judge(
        window(
            series(Signal.RUNNING, 72),
            series(Signal.WAITING, 184),
            series(Signal.KV_USAGE, 1),
            series(Signal.GENERATION_RATE, 500),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("over a minute" in need for need in verdict.needs)


def test_costly_preemptions_a_standstill_a_drain_and_a_crash_are_others_stories() -> None:
    full = series(Signal.KV_USAGE, 1, 1, 1, 1)
    thrash = series(Signal.PREEMPTIONS, 0, 60, 120, 180)
    assert OVERLOAD.judge(window(*_busy(), full, thrash)) is None
    still = window(
        series(Signal.RUNNING, 0, 0, 0),
        series(Signal.WAITING, 6, 6, 6),
        series(Signal.GENERATION_TOKENS, 5, 5, 5),
    )
    assert OVERLOAD.judge(still) is None
    assert OVERLOAD.judge(window(*_busy(waiting=(184, 120, 60, 20)), full)) is None
    died = said(LogKind.OUT_OF_MEMORY, "CUDA out of memory", at=30)
    assert OVERLOAD.judge(window(*_busy(), full, died)) is None


def test_slower_tokens_and_uncounted_preemptions_leave_it_open() -> None:
    verdict = OVERLOAD.judge(
        window(
            *_busy(),
            series(Signal.KV_USAGE, 1, 1, 1, 1),
            fact("output_tokens_per_s_before", 161, unit=Unit.TOKENS_PER_SECOND),
            fact("output_tokens_per_s", 96, unit=Unit.TOKENS_PER_SECOND),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("preemptions" in need for need in verdict.needs)


def test_a_batch_that_stands_beside_a_queue_that_stands_is_no_known_limit() -> None:
    verdict = OVERLOAD.judge(
        window(
            series(Signal.RUNNING, *[21] * 12, every=5),
            series(Signal.WAITING, *[9] * 12, every=5),
            series(Signal.GENERATION_TOKENS, *range(0, 12000, 1000), every=5),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_all_seats_and_a_queue_are_overload_and_no_idle_device_that_nobody_measured() -> None:
    taken = window(
        series(Signal.RUNNING, *[16] * 8),
        series(Signal.WAITING, 24, 25, 23, 24, 26, 24, 23, 25),
        series(Signal.KV_USAGE, 0.06, 0.061, 0.059, 0.06, 0.062, 0.06, 0.058, 0.06),
        series(Signal.GENERATION_TOKENS, *range(0, 8000, 1000)),
        series(Signal.SEATS, *[16] * 8),
    )
    found = diagnose(taken, BUILT_IN_RULES)
    assert found.mechanism is Mechanism.QUEUE_OVERLOAD
    assert Mechanism.BATCH_UNDERFILLED not in {each.mechanism for each in found.findings}
    idle = UNDERFILLED.judge(replace(taken, facts=(fact("gpu_util", 0.3, at=70),)))
    assert idle is not None
    assert idle.confidence is Confidence.LIKELY


def test_a_full_cache_into_which_nobody_is_let_may_be_work_done_twice() -> None:
    full = (
        series(Signal.RUNNING, 34, 33, 33),
        series(Signal.WAITING, 18, 40, 47),
        series(Signal.KV_USAGE, 0.99, 0.975, 0.98),
        series(Signal.GENERATION_RATE, 757, 736, 719),
    )
    still = OVERLOAD.judge(window(*full, series(Signal.PROMPT_RATE, 0, 0, 0)))
    assert still is not None
    assert still.confidence is Confidence.POSSIBLE
    assert "preemptions or retractions over time" in still.needs
    lets_in = OVERLOAD.judge(window(*full, series(Signal.PROMPT_RATE, 900, 0, 1200)))
    assert lets_in is not None
    assert lets_in.confidence is Confidence.LIKELY


def test_a_queue_beside_a_batch_that_nobody_counts_is_open() -> None:
    uncounted = (
        series(Signal.WAITING, 18, 40, 47),
        series(Signal.KV_USAGE, 0.99, 0.975, 0.98),
        series(Signal.GENERATION_TOKENS, 0, 7000, 14_000),
        series(Signal.PREEMPTIONS, 0, 0, 0),
    )
    verdict = OVERLOAD.judge(window(*uncounted))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_a_gateway_at_which_more_arrives_than_is_answered_though_one_reading_dips() -> None:
    flooded = (
        series(Signal.RUNNING, 12, 48, 48, 48, 43),
        series(Signal.KV_USAGE, 0.2, 0.4, 0.5, 0.6, 0.4),
        series(Signal.GATEWAY_QUEUED, 0, 408, 966, 1201, 1222),
        series(Signal.FINISHED, 0, 190, 380, 560, 750),
        series(Signal.GENERATION_TOKENS, 0, 7000, 14_000, 21_000, 28_000),
    )
    arrived = series(Signal.GATEWAY_ARRIVED, 0, 700, 1500, 2200, 3000)
    verdict = OVERLOAD.judge(window(*flooded, arrived))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert {3000, 750} <= reckoned(verdict)


def test_averages_that_begin_anew_whenever_they_are_read_hide_no_overload() -> None:
    """As llama.cpp's are: zero where no request ended since anybody read them."""
    found = diagnose(
        window(
            series(Signal.RUNNING, 2, 2, 2, 2, 2, 2, 2, 2, every=6),
            series(Signal.SEATS, 2, 2, 2, 2, 2, 2, 2, 2, every=6),
            series(Signal.WAITING, 0, 0, 0, 0, 2, 0, 2, 1, every=6),
            series(Signal.GATEWAY_QUEUED, 14, 16, 16, 16, 16, 16, 16, 16, every=6),
            series(Signal.GENERATION_RATE, 0, 29, 20, 0, 17, 0, 0, 37, every=6),
            series(Signal.PROMPT_RATE, 29, 122, 0, 0, 62, 0, 0, 0, every=6),
            series(
                Signal.GENERATION_TOKENS, 5110, 5290, 5480, 5660, 5860, 6050, 6260, 6487, every=6
            ),
            series(Signal.PROMPT_TOKENS, 900, 960, 1020, 1070, 1130, 1190, 1240, 1300, every=6),
            engine="llamacpp",
        ),
        BUILT_IN_RULES,
    )
    assert [each.mechanism for each in found.findings] == [Mechanism.QUEUE_OVERLOAD]


def test_a_queue_before_slots_that_nobody_counted_is_overload_once_it_was_seen_often_enough() -> (
    None
):
    def waits(pages: int) -> Confidence | None:
        verdict = OVERLOAD.judge(
            window(
                series(Signal.RUNNING, *[2] * pages, every=1.0),
                series(Signal.WAITING, *[18] * pages, every=1.0),
                series(Signal.GENERATION_TOKENS, *(64 * (i // 2) for i in range(pages)), every=1.0),
                series(Signal.STEPS, *range(pages), every=1.0),
                engine="llama.cpp",
            )
        )
        return None if verdict is None else verdict.confidence

    assert waits(11) is Confidence.LIKELY
    assert waits(6) is Confidence.POSSIBLE


def _one_waits(*beside: Series | Fact, every: float = 5) -> Window:
    """Three callers that ask again and again, of two slots."""
    return window(
        series(Signal.RUNNING, *[2] * 12, every=every),
        series(Signal.WAITING, *[1] * 12, every=every),
        series(Signal.GENERATION_TOKENS, *range(0, 1200, 100), every=every),
        series(Signal.STEPS, *range(0, 600, 50), every=every),
        series(Signal.PROMPT_TOKENS, *range(0, 240, 20), every=every),
        fact("slots", 2),
        *beside,
        engine="llama.cpp",
    )


def test_the_next_in_turn_beside_seats_that_are_served_is_no_overload() -> None:
    found = _one_waits(fact("errors", 0))
    assert OVERLOAD.judge(found) is None
    assert diagnose(found, BUILT_IN_RULES).mechanism is Mechanism.HEALTHY


def test_one_that_is_known_to_wait_for_long_is() -> None:
    verdict = OVERLOAD.judge(_one_waits(fact("queue_wait_p50_seconds", 9, unit=Unit.SECONDS)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY

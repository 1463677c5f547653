import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules.queue.burst_draining import BURST_DRAINING
from controlplane.diagnosis.rules.queue.retry_storm import RETRY_STORM
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned

FAILING = fact("http_429_last_60_s", 310)


@pytest.mark.parametrize(
    "told",
    [
        (fact("retry_share", "72 %", 0.72),),
        (fact("attempts_per_request", 4.1),),
        (fact("user_requests_per_min", 40), fact("upstream_calls_per_min", 330)),
        (fact("agent_turns_last_10_min", 46), fact("dispatches_last_10_min", 171)),
        (fact("original_requests", 100), fact("retries_seen", 450)),
    ],
    ids=lambda told: told[0].key,
)
def test_most_of_what_arrives_came_before(told: tuple[Fact, ...]) -> None:
    found = window(*told, FAILING)
    verdict = RETRY_STORM.judge(found)
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY
    assert {(each.key, each.raw) for each in told} <= cited(found, verdict)
    assert Mechanism.QUEUE_OVERLOAD in RETRY_STORM.explains


def test_few_retries_are_none_and_a_setting_is_no_count() -> None:
    assert RETRY_STORM.judge(window(fact("retry_share", "4 %", 0.04), FAILING)) is None
    assert RETRY_STORM.judge(window(fact("max_retries", 3), fact("requests_total", 90))) is None


def _fan_out(*, failed: int, **more: object) -> Confidence | None:
    counts = told(
        0,
        client_requests_last_60_s=100,
        upstream_attempts_last_60_s=900,
        http_400_last_60_s=failed,
        **more,
    )
    verdict = RETRY_STORM.judge(window(*counts))
    return None if verdict is None else verdict.confidence


def test_a_storm_has_as_many_failures_as_its_attempts_need() -> None:
    assert _fan_out(failed=3, success_rate=0.97) is Confidence.POSSIBLE
    assert _fan_out(failed=40, attempts_per_failed_request_mean=20) is Confidence.CERTAIN


def test_a_timeout_is_a_failure_only_where_answers_do_not_keep_it() -> None:
    told = (fact("retries", 700), fact("requests", 1000), fact("client_timeout_s", 60))
    idle = RETRY_STORM.judge(window(series(Signal.WAITING, 0, 0), *told))
    assert idle is not None
    assert idle.confidence is Confidence.POSSIBLE
    slow = (series(Signal.WAITING, 3, 40), series(Signal.FINISHED, 100, 105))
    for shown in (slow, (fact("answer_s_p50", 90, unit=Unit.SECONDS),)):
        late = RETRY_STORM.judge(window(*shown, *told))
        assert late is not None
        assert late.confidence >= Confidence.LIKELY


def test_a_queue_that_grows_and_is_through_in_time_makes_nobody_give_up() -> None:
    told = (fact("retries", 700), fact("requests", 1000), fact("client_timeout_s", 60))
    quick = (series(Signal.WAITING, 3, 40), series(Signal.FINISHED, 100, 150))
    verdict = RETRY_STORM.judge(window(*quick, *told))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_refusals_after_a_change_of_retries_ask_for_their_share() -> None:
    changed = Change(at=-60, what="client library: retries 0 -> 10 without backoff")
    verdict = RETRY_STORM.judge(window(FAILING, changed))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("retries" in need for need in verdict.needs)


def test_a_queue_that_falls_while_nothing_arrives_is_a_burst() -> None:
    verdict = BURST_DRAINING.judge(
        window(
            series(Signal.RUNNING, 18, 18, 18, 21, 20),
            series(Signal.WAITING, 43, 42, 33, 23, 23),
            series(Signal.GENERATION_RATE, 1055, 1226, 735, 590, 1243),
            fact("arrivals_last_60_s", 0),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert "empty in 46 s" in verdict.detail


def test_waves_that_came_and_went_are_bursts_even_on_their_way_up() -> None:
    verdict = BURST_DRAINING.judge(
        window(
            series(Signal.RUNNING, 5, 48, 48, 4, 0, 0, 48, 48),
            series(Signal.GATEWAY_QUEUED, 0, 90, 40, 0, 0, 0, 150, 190),
            series(Signal.GENERATION_TOKENS, 0, 9, 99, 150, 150, 150, 180, 290),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "requests come in waves"


def test_a_slow_fall_with_unknown_arrivals_is_open() -> None:
    verdict = BURST_DRAINING.judge(
        window(
            series(Signal.RUNNING, 18, 18),
            series(Signal.WAITING, 40, 28),
            series(Signal.GENERATION_RATE, 900, 900),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "arrivals during the window" in verdict.needs


def test_a_queue_that_stays_or_falls_without_a_token_is_no_burst() -> None:
    stays = (series(Signal.RUNNING, 8, 8, 8), series(Signal.WAITING, 40, 42, 41))
    assert BURST_DRAINING.judge(window(*stays)) is None
    dead = (
        series(Signal.RUNNING, 0, 0, 0),
        series(Signal.WAITING, 40, 20, 10),
        series(Signal.GENERATION_TOKENS, 5, 5, 5),
    )
    assert BURST_DRAINING.judge(window(*dead)) is None


def test_a_burst_whose_queue_is_just_empty_again_was_one() -> None:
    running = series(Signal.RUNNING, 256, 256, 256, 252)
    rate = series(Signal.GENERATION_RATE, 4120, 6633, 6702, 6511)
    none = fact("arrivals_last_10_s", 0, at=30)
    verdict = BURST_DRAINING.judge(
        window(running, series(Signal.WAITING, 741, 498, 243, 0), rate, none)
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    over = window(running, series(Signal.WAITING, 741, 0, 0, 0), rate, none)
    assert BURST_DRAINING.judge(over) is None


def test_a_wave_that_is_over_says_when_it_was() -> None:
    verdict = BURST_DRAINING.judge(
        window(
            series(Signal.RUNNING, 2, 30, 30, 30, 2, 3, 2, 3, 2),
            series(Signal.WAITING, 0, 40, 20, 9, 0, 0, 0, 0, 0),
            series(Signal.GENERATION_RATE, *[500] * 9),
        )
    )
    assert verdict is not None
    assert verdict.detail == "one wave, over 50 s before the end of what was seen"
    assert {40, 20, 70} <= reckoned(verdict)


def test_where_nobody_comes_any_slow_fall_is_the_way_down() -> None:
    falling = (
        series(Signal.RUNNING, 32, 32, 32),
        series(Signal.WAITING, 871, 838, 806),
        series(Signal.GENERATION_RATE, 648, 656, 653),
    )
    known = fact("arrivals_last_20_s", 0, at=20)
    verdict = BURST_DRAINING.judge(window(*falling, known))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert BURST_DRAINING.judge(window(*falling, fact("arrivals_last_20_s", 60, at=20))) is None


def test_the_same_asked_again_by_whoever_wanted_to_is_no_storm() -> None:
    asked = (fact("unique_prompts", 100), fact("requests", 1000))
    few = RETRY_STORM.judge(window(*asked, fact("errors", 3)))
    assert few is not None
    assert few.confidence is Confidence.POSSIBLE
    many = RETRY_STORM.judge(window(*asked, fact("errors", 880)))
    assert many is not None
    assert many.confidence is Confidence.CERTAIN

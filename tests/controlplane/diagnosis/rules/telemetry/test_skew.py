import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.skew import SKEW
from tests.controlplane.diagnosis.rules.build_window import told, window


@pytest.mark.parametrize(
    "facts",
    [
        told(computed_transfer_ms=-214, ntp_synced_node_7=False, decode_node="n7"),
        told(raylet_duration_ms=18446744073709551005, host_log="clock set back by 611 ms"),
        told(gateway_to_engine_ms=803, chrony_offset_ms=790),
        told(
            ttft_ms_of_those_min=2218,
            ttft_ms_p50_after=330,
            host_log="System clock was stepped by 2.001 seconds",
        ),
    ],
    ids=["below zero", "wrapped", "as long as the offset", "longer by a step"],
)
def test_clocks_that_are_known_to_differ_explain_times_that_cannot_be(
    facts: tuple[Fact, ...],
) -> None:
    verdict = SKEW.judge(window(facts))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_what_was_received_before_it_was_sent_is_likely() -> None:
    verdict = SKEW.judge(
        window(told(client_sent_at="12:00:05.210", server_received_at="12:00:04.871"))
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_a_log_of_two_hosts_that_speaks_of_negative_times_is_likely() -> None:
    line = "WARNING kv_transfer: negative transfer time -0.412 s for room 88123"
    verdict = SKEW.judge(window(line, told(prefill_host="p1", decode_host="d1")))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_a_negative_time_of_one_place_asks_for_the_clocks() -> None:
    verdict = SKEW.judge(window(told(alloc_time_ms=-3)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "offset of both machines' clocks" in verdict.needs


@pytest.mark.parametrize(
    "facts",
    [
        told(transfer_ms=214, ttft_ms=402),
        told(chrony_offset_ms=0.4, gateway_to_engine_ms=3),
        told(slack_ms=-20, budget_remaining_s=-1),
        told(started_at="12:00:01", finished_at="12:00:04"),
    ],
    ids=["a slow transfer", "clocks that are kept", "a budget", "in order"],
)
def test_times_that_can_be_are_no_skew(facts: tuple[Fact, ...]) -> None:
    assert SKEW.judge(window(facts)) is None


def test_a_token_from_the_future_asks_for_the_clocks_until_they_are_known() -> None:
    line = "jwt rejected: token used before issued (iat 1772445605, now 1772445561)"
    alone = SKEW.judge(window(line))
    assert alone is not None
    assert alone.confidence is Confidence.POSSIBLE
    known = SKEW.judge(window(line, told(auth_host_time_ahead_s=44)))
    assert known is not None
    assert known.confidence is Confidence.CERTAIN


_SOUND = told(
    1, frontend="A", server_arrival_time=18251.9, first_scheduled_time=18252.0, client_ttft_s=0.3
)


@pytest.mark.parametrize(
    "facts",
    [
        _SOUND
        + told(2, frontend="B", server_arrival_time=18269.4, first_scheduled_time=18252.9)
        + told(3, frontend="B", server_arrival_time=18270.4, first_scheduled_time=18253.9),
        told(shown_duration="213503982d 8h", span_clock="system_clock", chrony="slewing backward"),
        told(
            clock_offset_s={"master": 0.0, "worker-2": -215.0}, responses_before_their_request=412
        ),
        told(heartbeat_age_s=-3.1, timedatectl="System clock synchronized: no"),
        told(transfer_ms_a_to_b=812, transfer_ms_b_to_a=-790),
        told(decode_start_minus_prefill_end_ms=-38, gen_host_ptp="not locked"),
    ],
    ids=[
        *("one of two front ends", "wrapped, in days", "answers before questions"),
        *("an age below 0", "there and back", "a difference of two moments"),
    ],
)
def test_times_that_cannot_be_are_known_by_their_physics(facts: tuple[Fact, ...]) -> None:
    verdict = SKEW.judge(window(facts))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    "facts",
    [
        told(server_arrival_time=18251.9, first_scheduled_time=18252.0, first_token_time=18252.4),
        told(arrival_time=1772445605.0, first_token_time=1.3),
        told(uptime="71 min", warmups_before_start=3, tokens_before_preemption=811),
        told(span_clock="system_clock", ttft_ms=402),
        told(client_time_s=4000, engine_time_s=1200),
    ],
    ids=[
        *("in order", "a duration beside a moment", "before something else"),
        *("a wall clock alone", "two durations"),
    ],
)
def test_moments_that_can_be_are_no_skew(facts: tuple[Fact, ...]) -> None:
    assert SKEW.judge(window(facts)) is None

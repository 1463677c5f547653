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

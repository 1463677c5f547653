"""Tokens that are held back and let go together, and pages that draw what long was there."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules.delivery.front_end_bound import FRONT_END_BOUND
from controlplane.diagnosis.rules.delivery.slow_client import SLOW_CLIENT
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.rules.evidence import weighed
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms

QUIET = (
    series(Signal.RUNNING, 20, 21),
    series(Signal.WAITING, 0, 0),
    series(Signal.KV_USAGE, 0.1, 0.1),
)


def _in_time(**values: object) -> Window:
    quiet = window(*QUIET, told(**values))
    return with_histograms(quiet, histogram(Signal.ITL, {}, {0.02: 900}))


@pytest.mark.parametrize(
    "values",
    [
        {
            "ttft_ms_at_engine": 40,
            "ttft_ms_at_edge": 390,
            "itl_ms_at_engine": 9,
            "itl_ms_at_edge": 2,
        },
        {
            "server_first_chunk_s": 0.1,
            "client_first_chunk_s": 0.9,
            "server_token_gap_ms": 20,
            "client_token_gap_ms": 4,
        },
        {
            "pod_first_token_p50_ms": 33,
            "nginx_first_token_p50_ms": 450,
            "pod_tpot_p50_ms": 11,
            "nginx_tpot_p50_ms": 2.1,
        },
    ],
    ids=["at the edge", "at the client", "behind a proxy by its name"],
)
def test_no_hop_makes_tokens_faster_so_they_come_in_lumps(values: dict[str, object]) -> None:
    verdict = FRONT_END_BOUND.judge(_in_time(**values, clients_blocked_on_write=0))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


@pytest.mark.parametrize(
    ("ttft", "itl"),
    [(390, 9), (45, 2)],
    ids=["later, and as far apart as made", "in time, and counted by larger chunks"],
)
def test_a_longer_way_alone_and_a_faster_gap_alone_are_no_lumps(ttft: float, itl: float) -> None:
    values = {
        "ttft_ms_at_engine": 40,
        "ttft_ms_at_edge": ttft,
        "itl_ms_at_engine": 9,
        "itl_ms_at_edge": itl,
    }
    assert FRONT_END_BOUND.judge(_in_time(**values, clients_blocked_on_write=1)) is None
    verdict = FRONT_END_BOUND.judge(_in_time(**values))
    assert verdict is None or verdict.confidence < Confidence.LIKELY


@pytest.mark.parametrize(
    "values",
    [
        {"last_byte_after_s": 13, "shown_to_user_after_s": 95},
        {"gateway_last_byte_s": 9.5, "browser_rendered_last_token_s": 70},
        {"response_complete_s": 21.5, "page_done_drawing_s": 180},
    ],
    ids=["shown", "rendered", "drawn"],
)
def test_what_was_there_long_before_it_was_shown_is_the_pages(values: dict[str, object]) -> None:
    verdict = SLOW_CLIENT.judge(window(told(**values)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert Mechanism.DELIVERY_FRONT_END_BOUND in weighed(verdict)


@pytest.mark.parametrize(
    "values",
    [
        {"last_byte_after_s": 90, "shown_to_user_after_s": 95},
        {"response_complete_s": 20, "ui_render_timeout_s": 180},
        {"last_byte_after_s": 13, "page_first_rendered_s": 60},
        {"response_complete_s": 2, "chat_template_render_s": 12},
    ],
    ids=[
        "the last byte is late itself",
        "a timeout",
        "its first time",
        "a prompt that is rendered",
    ],
)
def test_a_page_that_shows_what_comes_when_it_comes_is_not_slow(values: dict[str, object]) -> None:
    assert SLOW_CLIENT.judge(window(told(**values))) is None


def test_a_page_that_is_late_beside_an_engine_that_is_late_is_not_the_cause() -> None:
    full = window(
        series(Signal.WAITING, 9, 9), told(last_byte_after_s=13, shown_to_user_after_s=95)
    )
    assert SLOW_CLIENT.judge(full) is None

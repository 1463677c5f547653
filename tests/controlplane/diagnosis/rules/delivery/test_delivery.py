import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.delivery.front_end_bound import FRONT_END_BOUND
from controlplane.diagnosis.rules.delivery.slow_client import SLOW_CLIENT
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window
from tests.controlplane.diagnosis.rules.evidence import weighed
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms

QUIET: tuple[Series, ...] = (
    series(Signal.RUNNING, 20, 21),
    series(Signal.WAITING, 0, 0),
    series(Signal.KV_USAGE, 0.1, 0.1),
)
FULL_CORE = fact("front_process_cpu_percent", "100 %", 1.0, Unit.RATIO)


def _in_time(*parts: Series | Fact) -> Window:
    return with_histograms(window(*parts), histogram(Signal.ITL, {}, {0.02: 900}))


def test_a_front_process_at_its_limit_before_an_engine_that_waits() -> None:
    verdict = FRONT_END_BOUND.judge(
        _in_time(
            *QUIET,
            FULL_CORE,
            fact("engine_core_cpu_percent", "38 %", 0.38, Unit.RATIO),
            fact("gpu_util", 0.24),
            fact("clients_blocked_on_write", 0),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert Mechanism.DELIVERY_SLOW_CLIENT in weighed(verdict)


def test_the_same_engines_are_faster_without_what_stands_before_them() -> None:
    verdict = FRONT_END_BOUND.judge(
        _in_time(
            *QUIET,
            fact("ttft_mean_ms", 1.4, unit=Unit.SECONDS),
            fact("ttft_mean_ms_straight_at_replicas", 0.1, unit=Unit.SECONDS),
            fact("requests_inside_ingress", 169),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_a_busy_engine_process_is_not_the_front_end() -> None:
    core = fact("engine_core_cpu_percent", "100 %", 1.0, Unit.RATIO)
    assert FRONT_END_BOUND.judge(_in_time(*QUIET, FULL_CORE, core)) is None


def test_a_busy_front_alone_asks_for_the_engines_pace() -> None:
    verdict = FRONT_END_BOUND.judge(window(FULL_CORE))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "time between tokens at the engine" in verdict.needs


@pytest.mark.parametrize(
    "told",
    [
        fact("streams_blocked_on_write", 54),
        fact("dropped_for_full_buffer_last_60_s", 5),
        fact("time_in_socket_write_share", "0.96, 0.01, 0.01, 0.01"),
    ],
    ids=lambda told: told.key,
)
def test_clients_that_do_not_take_what_was_made_in_time(told: Fact) -> None:
    verdict = SLOW_CLIENT.judge(_in_time(*QUIET, told))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


def test_answers_on_their_way_to_clients_that_engines_are_done_with() -> None:
    verdict = SLOW_CLIENT.judge(
        window(
            *QUIET,
            series(Signal.GATEWAY_IN_FLIGHT, 14, 14),
            series(Signal.GATEWAY_UNDELIVERED, 90, 114),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_no_client_blocks_or_the_engine_itself_is_late() -> None:
    assert SLOW_CLIENT.judge(_in_time(*QUIET, fact("clients_blocked_on_write", 0))) is None
    waits = (*QUIET[:1], series(Signal.WAITING, 40, 50), *QUIET[2:])
    assert SLOW_CLIENT.judge(_in_time(*waits, fact("clients_blocked_on_write", 9))) is None


def test_blocked_clients_behind_a_busy_server_leave_it_open() -> None:
    blocked = fact("clients_blocked_on_write", 9)
    verdict = SLOW_CLIENT.judge(_in_time(*QUIET, blocked, FULL_CORE))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_streams_that_stall_because_few_tokens_are_made_are_no_slow_clients() -> None:
    stalled = fact("streams_stalled", 45, at=20)
    room = series(Signal.KV_USAGE, 0.2, 0.2, 0.2)
    nobody = series(Signal.WAITING, 0, 0, 0)
    running = series(Signal.RUNNING, 45, 52, 62)
    starved = window(running, room, nobody, series(Signal.GENERATION_RATE, 1630, 90, 77), stalled)
    assert SLOW_CLIENT.judge(starved) is None
    steady = window(
        running, room, nobody, series(Signal.GENERATION_RATE, 1630, 1600, 1610), stalled
    )
    verdict = SLOW_CLIENT.judge(steady)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


_MADE_FASTER = told(generation_tokens_per_s=73, sse_frames_per_s=11)


@pytest.mark.parametrize(
    "facts",
    [
        _MADE_FASTER
        + told(
            frame_interval_p10_ms=88.6,
            frame_interval_p90_ms=91.2,
            chunks_in_final_burst=763,
            clients_blocked_on_write=0,
        ),
        told(
            engine_first_token_ms=210,
            client_first_token_ms=41_000,
            client_total_ms=41_300,
            clients_blocked_on_write=0,
        ),
        told(through_litellm_tokens_per_s=210, direct_tokens_per_s=900, litellm_cpu_percent=100)
        + told(gpu_util=0.2),
        told(health_ms=7800, gpu_util=0.28, engine_core_cpu_percent=31, event_loop_lag_s=19),
    ],
    ids=[
        *("a wait between frames", "gathered by a proxy"),
        *("a busy proxy", "even health comes late"),
    ],
)
def test_the_way_out_is_slower_than_what_is_made(facts: tuple[Fact, ...]) -> None:
    verdict = FRONT_END_BOUND.judge(window(facts))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


@pytest.mark.parametrize(
    "facts",
    [
        _MADE_FASTER + told(tokens_per_frame=8),
        _MADE_FASTER + told(streams_blocked_on_write=4),
        told(health_ms=12, metrics_age_s=4),
        told(generation_tokens_per_s=73, client_read_tokens_per_s=11),
    ],
    ids=["several a frame", "clients block", "health comes at once", "the client reads less"],
)
def test_frames_that_leave_as_they_are_made_or_are_not_taken(facts: tuple[Fact, ...]) -> None:
    assert FRONT_END_BOUND.judge(window(facts)) is None

"""What is held, slow or silent by design is no leak, no slow start and no hang."""

from collections.abc import Mapping

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.rules.life.leak import LEAK
from controlplane.diagnosis.rules.life.startup import STARTUP_SLOW
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.truth import truth_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, said, series, told, window


def _is_sure(rule: Rule, seen: Window) -> bool:
    verdict = rule.judge(seen)
    return verdict is not None and verdict.confidence > Confidence.POSSIBLE


def _over_time(key: str, *values: float, **always: float) -> tuple[Fact, ...]:
    moments = (
        told(600.0 * number, **{key: value}, **always) for number, value in enumerate(values)
    )
    return tuple(fact for facts in moments for fact in facts)


@pytest.mark.parametrize(
    "held",
    [
        _over_time("rss_gib", 2, 4, 6, 8, cache_ram_limit_gib=16, in_flight=0),
        _over_time("engine_rss_gib", 2.0, 3.1, 3.2, 3.2, in_flight=0),
        _over_time("kv_blocks_in_use", 100, 200, 300, 400, in_flight=0),
        _over_time("adapters_in_use", 2, 3, 4, 5, in_flight=0),
        _over_time("connections", 10, 70, 130, 190, in_flight=2),
        _over_time("threads", 8, 18, 28, 38, in_flight=4),
    ],
    ids=lambda held: held[0].key,
)
def test_what_is_kept_by_design_is_no_leak(held: tuple[Fact, ...]) -> None:
    assert not _is_sure(LEAK, window(held))


@pytest.mark.parametrize(
    "held",
    [
        _over_time("engine_rss_gib", 2, 4, 6, 8, in_flight=0),
        _over_time("kv_blocks_held_by_requests", 100, 200, 300, 400, in_flight=0),
        _over_time("connections", 10, 70, 130, 190, in_flight=2, connections_limit=200),
        _over_time("permits_held", 10, 70, 130, 190, in_flight=2),
    ],
    ids=lambda held: held[0].key,
)
def test_what_ends_with_a_request_or_nears_its_limit_is(held: tuple[Fact, ...]) -> None:
    assert _is_sure(LEAK, window(held))


def test_requests_that_finish_are_somebodys_who_comes_another_way() -> None:
    seen = (
        series(Signal.RUNNING, 10, 11, 12, 10, 11, every=15),
        series(Signal.GENERATION_TOKENS, 1000, 2000, 3000, 4000, 5000, every=15),
        series(Signal.FINISHED, 100, 108, 116, 124, 130, every=15),
        _over_time("in_flight", 0, 0),
    )
    assert not _is_sure(LEAK, window(*seen, end=60))


def _regular(running: tuple[float, ...], free: tuple[float, ...], *, arrived: float) -> Window:
    """Read every ten seconds, with `arrived` more each time, none of which was seen in flight."""
    count = len(running)
    return window(
        series(Signal.RUNNING, *running, every=10),
        series(Signal.WAITING, *[0] * count, every=10),
        series(Signal.KV_BLOCKS_FREE, *free, every=10),
        series(Signal.GENERATION_TOKENS, *[200 * turn for turn in range(count)], every=10),
        series(Signal.GATEWAY_IN_FLIGHT, *[0] * count, every=10),
        series(Signal.GATEWAY_ARRIVED, *[arrived * turn for turn in range(count)], every=10),
        end=10 * (count - 1),
    )


@pytest.mark.parametrize(
    ("running", "free"),
    [
        ((0, 0, 0, 0, 0, 1, 1, 1), (2048, 2048, 2048, 2048, 2048, 2033, 2033, 2032)),
        ((0, 0, 0, 1, 1, 1, 1, 1), (2048, 2048, 2048, 2033, 2033, 2033, 2033, 2033)),
        ((1, 1, 1, 1, 1, 1, 1, 1), (2033, 2033, 2033, 2033, 2033, 2033, 2033, 2033)),
    ],
    ids=["lately", "half the time", "always"],
)
def test_one_request_a_second_keeps_step_with_whoever_looks_every_few_seconds(
    running: tuple[float, ...], free: tuple[float, ...]
) -> None:
    assert not _is_sure(LEAK, _regular(running, free, arrived=10))


def test_a_seat_that_stays_taken_when_no_more_requests_come_is_held() -> None:
    held = _regular((0, 0, 0, 1, 1, 1, 1, 1), (2048, 2048, 2048, *[2033] * 5), arrived=0)
    assert _is_sure(LEAK, held)


def test_seats_of_which_ever_more_stay_taken_are_held() -> None:
    assert _is_sure(LEAK, _regular((0, 1, 2, 3, 4, 5), (99, 98, 97, 96, 95, 94), arrived=10))


def test_fewer_blocks_that_are_free_whenever_nothing_runs_are_held() -> None:
    assert _is_sure(LEAK, _regular((0, 0, 0, 0, 0, 0), (99, 98, 97, 96, 95, 94), arrived=10))


def _stands(engine: str, seconds: float, **known: object) -> Window:
    return window(
        series(Signal.RUNNING, 1, 1, 1, every=seconds / 2),
        series(Signal.WAITING, 2, 4, 6, every=seconds / 2),
        series(Signal.GENERATION_TOKENS, 9000, 9000, 9000, every=seconds / 2),
        series(Signal.PROMPT_TOKENS, 50000, 50000, 50000, every=seconds / 2),
        series(Signal.GENERATION_RATE, 0, 0, 0, every=seconds / 2),
        told(seconds, in_flight=7, **known),
        engine=engine,
    )


@pytest.mark.parametrize(
    ("engine", "seconds", "known", "is_hung"),
    [
        ("llama.cpp", 120, {}, False),
        ("llama.cpp", 3600, {}, True),
        ("llama.cpp", 120, {"gpu_util_percent": 0}, True),
        ("vllm", 120, {}, True),
        ("vllm", 90, {"chunked_prefill": "off"}, False),
        ("vllm", 90, {"longest_prompt_tokens": 128000}, False),
    ],
)
def test_counters_that_stand_may_be_a_long_prompt(
    engine: str, seconds: float, known: Mapping[str, object], is_hung: bool
) -> None:
    assert _is_sure(HUNG, _stands(engine, seconds, **known)) is is_hung


@pytest.mark.parametrize(
    ("text", "is_answered"),
    [
        ("200 in 0.4 s, no error", True),
        ("0.3 s, not cached", True),
        ("200, but no token in 60 s", False),
        ("200 headers, then nothing", False),
        ("no answer in 20 s", False),
        ("503", False),
    ],
)
def test_an_answer_begins_as_one(text: str, is_answered: bool) -> None:
    probed = window(told(probe_one_token=text))
    assert truth_of(activity_of(probed)).is_answered is is_answered


_STARTED = (
    said(LogKind.STARTING, "Initializing an engine", at=0),
    said(LogKind.WEIGHTS_LOADED, "Loading weights took 130 seconds", at=140, seconds=130),
    said(LogKind.COMPILED, "torch.compile takes 75 s in total", at=215, seconds=75),
    said(LogKind.READY, "Application startup complete.", at=250),
)


@pytest.mark.parametrize(
    ("parts", "sure"),
    [
        (_STARTED, Confidence.POSSIBLE),
        (
            (told(compile_s=60, image_s=40, weights_load_s=90, ready=True),),
            Confidence.POSSIBLE,
        ),
        ((*_STARTED, told(weights_gib=14)), Confidence.CERTAIN),
    ],
)
def test_a_start_of_minutes_is_slow_against_something(
    parts: tuple[Line | tuple[Fact, ...], ...], sure: Confidence
) -> None:
    verdict = STARTUP_SLOW.judge(window(*parts))
    assert verdict is not None
    assert verdict.confidence is sure


def test_tokens_that_were_given_back_once_while_nothing_ran_leak_nowhere() -> None:
    seen = window(
        series(Signal.CONTEXT_TOKENS, 5000, 0, 0, 6000, 7000, 6000, every=20),
        series(Signal.RUNNING, 0, 0, 0, 1, 2, 0, every=20),
    )
    verdict = LEAK.judge(seen)
    assert verdict is None or not any("as many as before" in each for each in verdict.evidence)

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.pace.interference import INTERFERENCE
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, window
from tests.controlplane.diagnosis.rules.evidence import reckoned
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms

ROOM: tuple[Series, ...] = (
    series(Signal.RUNNING, 1, 2, 3, 3, 3),
    series(Signal.WAITING, 0, 0, 0, 0, 0),
    series(Signal.KV_USAGE, 0.02, 0.05, 0.08, 0.11, 0.2),
)


def test_decoding_that_collapses_in_exactly_the_readings_with_prefill() -> None:
    verdict = INTERFERENCE.judge(
        window(
            *ROOM,
            series(Signal.GENERATION_RATE, 28.4, 0.6, 0.2, 0.2, 27.9),
            series(Signal.PROMPT_RATE, 0, 2380, 2410, 2397, 0),
            fact("max_num_batched_tokens", 8192),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {2410, 3.4} <= reckoned(verdict)


def test_a_prompt_that_is_counted_when_its_prefill_ends_shows_one_reading_later() -> None:
    verdict = INTERFERENCE.judge(
        window(
            series(Signal.RUNNING, 1, 2, 1, 1),
            series(Signal.KV_USAGE, 0.01, 0.04, 0.01, 0.01),
            series(Signal.GENERATION_RATE, 272, 6.7, 150, 272),
            series(Signal.PROMPT_RATE, 0, 0, 6553, 0),
            fact("request_b", "65535 in, 1 out"),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_what_decodes_on_beside_prefill_or_slows_as_the_batch_empties_is_not_it() -> None:
    beside = (
        series(Signal.GENERATION_RATE, 1226, 735, 700, 710, 1240),
        series(Signal.PROMPT_RATE, 0, 12068, 12000, 12100, 0),
    )
    assert INTERFERENCE.judge(window(*ROOM, *beside)) is None
    fewer = (
        series(Signal.RUNNING, 46, 28, 15, 4, 1),
        series(Signal.GENERATION_RATE, 1447, 1086, 681, 190, 40),
        series(Signal.PROMPT_RATE, 0, 0, 0, 0, 0),
    )
    assert INTERFERENCE.judge(window(*fewer)) is None


def test_slower_beside_a_long_prompt_in_somebodys_figures() -> None:
    verdict = INTERFERENCE.judge(
        window(
            fact("itl_p50_ms_alone", 0.022, unit=Unit.SECONDS),
            fact("itl_p50_ms_during_prefill", 0.9, unit=Unit.SECONDS),
            fact("kv_usage", 0.3),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_many_streams_that_get_next_to_nothing_while_prompts_go_through() -> None:
    verdict = INTERFERENCE.judge(
        window(
            series(Signal.RUNNING, 251, 254),
            series(Signal.WAITING, 0, 1),
            series(Signal.KV_USAGE, 0.19, 0.2),
            series(Signal.GENERATION_RATE, 24.9, 22.3),
            series(Signal.PROMPT_RATE, 24_800, 24_690),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_a_few_slow_tokens_alone_ask_what_was_prefilled() -> None:
    slow = histogram(Signal.ITL, {}, {0.025: 9800, 0.05: 80, 1.5: 150})
    seen = with_histograms(window(*ROOM[1:]), slow)
    verdict = INTERFERENCE.judge(seen)
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("prefill tokens" in need for need in verdict.needs)


def test_prompts_that_grew_within_the_window_and_since_then_tokens_that_wait() -> None:
    quick, mixed = {0.025: 1000}, {0.025: 960, 0.1: 0, 0.5: 40}
    itl = histogram(Signal.ITL, *[quick] * 5, *[mixed] * 5)
    lengths = histogram(Signal.PROMPT_LENGTH, *[{128.0: 10}] * 5, *[{128.0: 8, 4096.0: 2}] * 5)
    calm = series(Signal.KV_USAGE, *[0.3] * 10)
    verdict = INTERFERENCE.judge(with_histograms(window(calm), itl, lengths))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    same = histogram(Signal.PROMPT_LENGTH, *[{128.0: 10}] * 10)
    open_case = INTERFERENCE.judge(with_histograms(window(calm), itl, same))
    assert open_case is not None
    assert open_case.confidence is Confidence.POSSIBLE


def test_one_moment_of_many_is_the_first_prompt_of_a_batch_that_begins() -> None:
    decode = [80, 0, *[78, 81, 76, 80, 79, 82] * 3]
    prefill = [0, 900, *[300, 0, 350, 0, 310, 0] * 3]
    verdict = INTERFERENCE.judge(
        window(
            series(Signal.RUNNING, *[4] * len(decode), every=2),
            series(Signal.GENERATION_RATE, *decode, every=2),
            series(Signal.PROMPT_RATE, *prefill, every=2),
            series(Signal.KV_USAGE, *[0.1] * len(decode), every=2),
        )
    )
    assert verdict is None or verdict.confidence < Confidence.LIKELY


@pytest.mark.parametrize(
    ("running", "is_it"), [((1, 2, 1, 2, 1), False), ((12, 13, 12, 13, 12), True)]
)
def test_one_replica_of_several_is_judged_where_a_batch_decodes_there(
    running: tuple[int, ...], is_it: bool
) -> None:
    """With a request or two its rate rises and falls as they come and end."""
    found = window(
        series(Signal.RUNNING, *running, replica="a"),
        series(Signal.GENERATION_RATE, 90, 13, 88, 12, 90, replica="a"),
        series(Signal.PROMPT_RATE, 0, 192, 0, 190, 0, replica="a"),
        series(Signal.RUNNING, 24, 24, 25, 24, 25, replica="b"),
        series(Signal.GENERATION_RATE, 400, 410, 405, 400, 402, replica="b"),
        series(Signal.PROMPT_RATE, 0, 0, 0, 0, 0, replica="b"),
    )
    assert (INTERFERENCE.judge(found) is not None) is is_it


def test_classifiers_write_one_token_and_starve_of_nothing() -> None:
    scored = (
        series(Signal.RUNNING, 8, 8, 8),
        series(Signal.WAITING, 0, 0, 0),
        series(Signal.KV_USAGE, 0.2, 0.2, 0.2),
        series(Signal.GENERATION_TOKENS, 0, 70, 140),
        series(Signal.PROMPT_RATE, 8000, 8000, 8000),
    )
    short = INTERFERENCE.judge(window(*scored, series(Signal.FINISHED, 0, 70, 140)))
    assert short is None or short.confidence is Confidence.POSSIBLE
    long = INTERFERENCE.judge(window(*scored, series(Signal.FINISHED, 0, 1, 2)))
    assert long is not None
    assert long.confidence is Confidence.LIKELY

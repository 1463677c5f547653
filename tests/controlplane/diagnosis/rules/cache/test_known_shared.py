"""What prompts are known to share, held against what of them was found."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.cache.nothing_shared import NOTHING_SHARED
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

NOTHING_FOUND: tuple[Series, ...] = (
    series(Signal.PREFIX_QUERIES, 112_044, 160_065, every=30),
    series(Signal.PREFIX_HITS, 0, 0, every=30),
)


@pytest.mark.parametrize(
    "seen",
    [
        (*NOTHING_FOUND, told(30, identical_prefix_tokens=16_007, block_size=256, requests=3)),
        (
            series(Signal.CACHED_PROMPT_TOKENS, 981_000, 985_096, every=600),
            series(Signal.COMPUTED_PROMPT_TOKENS, 4_100, 1_941_000, every=600),
            told(600, sessions=2, prompt_common_prefix_with_last_turn=0.998),
        ),
        (
            series(Signal.CACHED_PROMPT_TOKENS, 0, 31_200, every=60),
            series(Signal.COMPUTED_PROMPT_TOKENS, 80_055, 128_910, every=60),
            told(60, prompts="5 x 16011 tokens, each sent twice, byte for byte"),
        ),
    ],
)
def test_most_is_shared_and_hardly_anything_found(seen: tuple[Series | tuple[Fact, ...]]) -> None:
    verdict = PREFIX_LOSS.judge(window(*seen))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    "known",
    [
        told(30, identical_prefix_tokens=310, block_size=784),
        told(30, identical_prefix_tokens=16_007, block_size=16, replicas=8),
        told(30, same_text_tokens=500, block_size=16, distinct_images="every request"),
        told(30, shared_prefix_tokens=0, block_size=16),
    ],
)
def test_less_than_a_block_other_places_and_what_differs_first_lose_nothing(
    known: tuple[Fact, ...],
) -> None:
    assert PREFIX_LOSS.judge(window(*NOTHING_FOUND, known)) is None


def test_prompts_that_differ_before_the_first_block_ends_share_nothing() -> None:
    known = told(30, first_difference_at_token=9, block_size=16)
    verdict = NOTHING_SHARED.judge(window(*NOTHING_FOUND, known))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_hits_that_went_with_the_traffic_may_be_of_other_callers() -> None:
    falling = (
        series(Signal.RUNNING, 14, 5, 0, every=3000),
        series(Signal.PROMPT_RATE, 2210, 610, 0, every=3000),
        series(Signal.HIT_RATE, 0.46, 0.12, 0.0, every=3000),
    )
    verdict = PREFIX_LOSS.judge(window(*falling))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    busy = (series(Signal.RUNNING, 14, 15, 14, every=3000), *falling[2:])
    steady = series(Signal.PROMPT_RATE, 2210, 2610, 2600, every=3000)
    lost = PREFIX_LOSS.judge(window(*busy, steady))
    assert lost is not None
    assert lost.confidence is Confidence.LIKELY


def turn(at: float, common: int, cached: int, ttft_s: float) -> tuple[Fact, ...]:
    return told(at, common_prefix_with_last_turn=common, cached_tokens=cached, ttft_s=ttft_s)


def test_a_turn_that_finds_nothing_has_to_cost_or_to_come_again() -> None:
    found = turn(0, 61_240, 60_928, 1.9)
    dear = window(found, turn(9, 61_905, 0, 89.6), series(Signal.KV_USAGE, 0.44, 0.58))
    cheap = window(found, turn(9, 61_905, 0, 1.8))
    again = window(found, turn(9, 61_905, 0, 1.8), turn(19, 62_410, 0, 1.8))
    sure = [PREFIX_LOSS.judge(seen) for seen in (dear, cheap, again)]
    assert [verdict and verdict.confidence for verdict in sure] == [
        Confidence.CERTAIN,
        Confidence.POSSIBLE,
        Confidence.LIKELY,
    ]


def test_hits_that_fell_as_other_callers_came_are_open() -> None:
    fell = (
        series(Signal.RUNNING, *[8] * 8),
        series(Signal.HIT_RATE, 0.8, 0.8, 0.8, 0.8, 0.05, 0.05, 0.05, 0.05),
    )
    lost = PREFIX_LOSS.judge(window(*fell))
    assert lost is not None
    assert lost.confidence is Confidence.LIKELY
    came = Change(at=39, what="a second tenant with unrelated prompts joined")
    others = PREFIX_LOSS.judge(window(*fell, came))
    assert others is not None
    assert others.confidence is Confidence.POSSIBLE


def test_a_shared_length_beside_many_hits_lost_nothing() -> None:
    hits = (
        series(Signal.PREFIX_QUERIES, 0, 48_000, every=30),
        series(Signal.PREFIX_HITS, 0, 22_000, every=30),
    )
    assert PREFIX_LOSS.judge(window(*hits, told(30, shared_prefix_tokens=900))) is None

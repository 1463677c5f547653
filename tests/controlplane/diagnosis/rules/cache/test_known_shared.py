"""What prompts are known to share, held against what of them was found."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.cache.nothing_shared import NOTHING_SHARED
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
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
        (
            told(
                0, prompt_tokens=61_905, common_prefix_with_last_turn=61_240, cached_tokens=60_928
            ),
            told(9, prompt_tokens=62_410, common_prefix_with_last_turn=61_905, cached_tokens=0),
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

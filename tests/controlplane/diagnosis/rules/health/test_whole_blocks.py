import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(
    hits: float,
    *beside: Doubt | tuple[Fact, ...],
    tokens: int = 512,
    asked: float = 512,
    block: int = 128,
    waiting: float = 0,
) -> Verdict | None:
    return HEALTHY.judge(
        window(
            *beside,
            series(Signal.PREFIX_QUERIES, tokens, tokens + asked),
            series(Signal.PREFIX_HITS, 0, hits),
            series(Signal.PREEMPTIONS, 0, 0),
            series(Signal.WAITING, 0, waiting),
            told(10, prompt_tokens=tokens, block_size=block, errors=0),
        )
    )


@pytest.mark.parametrize(
    ("tokens", "asked", "hits"), [(512, 512, 384), (512, 2048, 1536), (513, 513, 512)]
)
def test_a_repeat_that_misses_the_block_of_its_last_token_is_well(
    tokens: int, asked: float, hits: float
) -> None:
    verdict = _judge(hits, tokens=tokens, asked=asked)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "every whole block is found"


@pytest.mark.parametrize("hits", [256, 0, 383])
def test_a_block_that_was_kept_and_missed_is_not(hits: float) -> None:
    verdict = _judge(hits)
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE


def test_other_prompts_among_the_repeats_leave_it_open() -> None:
    verdict = _judge(384, asked=900)
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE


def test_somebody_who_waits_is_not_passed_over() -> None:
    verdict = _judge(384, waiting=30)
    assert verdict is None or verdict.detail != "every whole block is found"


def test_one_of_several_engines_that_misses_no_block_speaks_for_no_other() -> None:
    several = Doubt(kind=DoubtKind.SEVERAL_ENGINES, name="page", what="figures of two engines")
    verdict = _judge(384, several)
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert verdict.needs


def test_what_somebody_asks_about_is_not_answered_by_a_sum_that_fits() -> None:
    verdict = _judge(384, told(10, rdma_transfer_s=4))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_two_readings_at_nearly_one_moment_are_no_course() -> None:
    verdict = HEALTHY.judge(
        window(
            series(Signal.PREFIX_QUERIES, 512, 1024, every=1),
            series(Signal.PREFIX_HITS, 0, 384, every=1),
            series(Signal.PREEMPTIONS, 0, 0, every=1),
            told(1, prompt_tokens=512, block_size=128, errors=0),
        )
    )
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE

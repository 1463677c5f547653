import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(
    hits: float, *, tokens: int = 512, asked: float = 512, block: int = 128, waiting: float = 0
) -> Verdict | None:
    return HEALTHY.judge(
        window(
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

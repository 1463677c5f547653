"""What a handful of prompts found is no hit rate: each finds what it shares, or nothing."""

from itertools import accumulate

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window

ASKED = (100,) * 6
FOUND = (0, 33, 20, 0, 0, 0)


def _judge(num_ended: int) -> Verdict | None:
    """By so many requests in each of the intervals."""
    return PREFIX_LOSS.judge(
        window(
            series(Signal.PREFIX_QUERIES, *accumulate(ASKED, initial=0), every=3),
            series(Signal.PREFIX_HITS, *accumulate(FOUND, initial=0), every=3),
            series(Signal.FINISHED, *accumulate((num_ended,) * 6, initial=0), every=3),
        )
    )


@pytest.mark.parametrize("num_ended", [1, 2, 3])
def test_a_few_prompts_without_hits_lost_nothing(num_ended: int) -> None:
    assert _judge(num_ended) is None


def test_many_prompts_without_hits_after_others_found_them_are_a_loss() -> None:
    verdict = _judge(20)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY

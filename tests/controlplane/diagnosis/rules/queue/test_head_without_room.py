"""A head of the queue that does not fit, and those behind it that would."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.callers.flood import FLOOD
from controlplane.diagnosis.rules.queue.head_of_line import HEAD_OF_LINE
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.rules.evidence import reckoned

CAPACITY = 100_000


def queue(kv: float, *waiting: float, running: float = 3) -> tuple[Series, ...]:
    return (
        series(Signal.RUNNING, running, running, running, every=10),
        series(Signal.WAITING, *waiting, every=10),
        series(Signal.KV_USAGE, kv, kv, kv, every=10),
        series(Signal.KV_CAPACITY, CAPACITY, CAPACITY, CAPACITY, every=10),
        series(Signal.GENERATION_TOKENS, 1_000, 2_000, 3_000, every=10),
    )


def judged(kv: float, *waiting: float, running: float = 3, **values: object) -> Verdict | None:
    known = told(20, max_num_seqs=16, **values)
    return HEAD_OF_LINE.judge(window(*queue(kv, *waiting, running=running), known))


@pytest.mark.parametrize(
    "values",
    [
        {"waiting_prompt_tokens_in_order": [60_000, 1_000, 1_200]},
        {"queue_head_tokens": 60_000, "short_prompt_tokens": 1_000},
        {"first_in_queue_prompt_tokens": 60_000, "prompts_behind_it_of_1k": 11},
    ],
)
def test_a_head_that_does_not_fit_holds_up_those_that_would(values: dict[str, float]) -> None:
    verdict = judged(0.5, 8, 8, 8, **values)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {50_000, CAPACITY} <= reckoned(verdict)


def test_beside_a_cache_that_is_nearly_full_it_is_likely() -> None:
    verdict = judged(0.96, 8, 8, 8, queue_head_tokens=30_000, short_prompt_tokens=1_000)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert judged(0.98, 8, 8, 8, queue_head_tokens=30_000, short_prompt_tokens=1_500) is None


def test_full_seats_a_queue_that_moves_or_a_head_that_never_fits_are_no_such_line() -> None:
    long: dict[str, float] = {"queue_head_tokens": 30_000, "short_prompt_tokens": 1_000}
    assert judged(0.96, 8, 8, 8, running=16, **long) is None
    assert judged(0.96, 12, 9, 6, **long) is None
    never: dict[str, float] = {"queue_head_tokens": 2 * CAPACITY, "short_prompt_tokens": 1_000}
    assert judged(0.96, 8, 8, 8, **never) is None


def test_long_prompts_that_are_let_in_one_after_the_other_hold_nobody_up() -> None:
    joining = (
        series(Signal.RUNNING, 10, 16, 22, 28, every=10),
        series(Signal.WAITING, 90, 84, 78, 72, every=10),
        series(Signal.KV_USAGE, 0.2, 0.3, 0.4, 0.5, every=10),
        series(Signal.PROMPT_RATE, 24_000, 24_000, 24_000, 24_000, every=10),
        series(Signal.GENERATION_RATE, 18, 35, 52, 69, every=10),
    )
    one_length = told(30, prompt_tokens=40_000)
    assert HEAD_OF_LINE.judge(window(*joining, one_length)) is None
    two = told(30, longest_prompt_tokens=40_000, other_prompts_tokens_p95=600)
    verdict = HEAD_OF_LINE.judge(window(*joining, two))
    assert verdict is not None
    assert verdict.confidence is not Confidence.POSSIBLE


def test_places_in_a_list_are_no_callers() -> None:
    listed = told(20, waiting_prompt_tokens_in_order=[60_000, 1_000, 1_200])
    assert FLOOD.judge(window(*queue(0.5, 8, 8, 8), listed)) is None
    by_name = told(20, prompt_tokens_by_user={"7": 60_000, "8": 1_000, "9": 1_200})
    assert FLOOD.judge(window(*queue(0.5, 8, 8, 8), by_name)) is not None

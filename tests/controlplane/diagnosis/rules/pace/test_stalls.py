"""Gaps between tokens that are as long as somebody else's prefill."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.pace.interference import INTERFERENCE
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, series, told, window

READING = Line(
    text="id 5 | task 902 | prompt processing, n_tokens = 16384, progress = 0.51, t = 30.91 s",
    kind=LogKind.PROMPT_PROGRESS,
    fields={"tokens": 16384, "progress": 0.51, "seconds": 30.91},
    words={"task": "902"},
)


@pytest.mark.parametrize(
    "seen",
    [
        (told(0, itl_p50_ms=24, itl_max_ms=31), told(9, itl_max_ms=1910, prefill_s=1.9)),
        (told(0, victim_gap_before_s=0.09, victim_gaps_during_s="30.9 and 29.9"), READING),
        (told(0, stream_stall_s=4.1, itl_p50_ms=22, chunk_size=8192, prefill_tokens_per_s=2000),),
    ],
)
def test_a_gap_as_long_as_a_prefill_is_spent_on_it(seen: tuple[Line | tuple[Fact, ...]]) -> None:
    verdict = INTERFERENCE.judge(window(*seen))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_a_gap_of_another_length_is_not() -> None:
    seen = told(0, itl_p50_ms=24, itl_max_ms=60_000, prefill_s=1.9)
    verdict = INTERFERENCE.judge(window(seen))
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE


def test_tokens_of_one_request_that_take_longer_while_prompts_of_others_are_read() -> None:
    def made(seconds: float, task: str) -> Line:
        return Line(
            text=f"task {task} | eval time = {seconds} s / 10 tokens",
            kind=LogKind.GENERATED,
            fields={"tokens": 10, "seconds": seconds},
            words={"task": task},
        )

    def read(task: str) -> Line:
        return Line(
            text=f"task {task} | prompt", kind=LogKind.PROMPT_PROGRESS, words={"task": task}
        )

    verdict = INTERFERENCE.judge(window(made(0.79, "16"), read("61"), read("62"), made(9.2, "60")))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert INTERFERENCE.judge(window(made(0.79, "16"), read("60"), made(9.2, "60"))) is None


def test_one_request_alone_does_not_decode_while_its_own_prompt_is_read() -> None:
    alone = (
        series(Signal.RUNNING, 1, 1, 1),
        series(Signal.KV_USAGE, 0.5, 0.5, 0.4),
        series(Signal.GENERATION_RATE, 41, 41, 0.1),
        series(Signal.PROMPT_RATE, 20, 0, 704),
    )
    assert INTERFERENCE.judge(window(*alone)) is None

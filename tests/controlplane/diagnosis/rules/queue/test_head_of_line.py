from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.head_of_line import HEAD_OF_LINE
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window

PILE: tuple[Series, ...] = (
    series(Signal.RUNNING, 4, 4, 4, 4, every=5),
    series(Signal.WAITING, 0, 9, 21, 34, every=5),
    series(Signal.KV_USAGE, 0.06, 0.09, 0.11, 0.13, every=5),
    series(Signal.PROMPT_RATE, 512, 499, 505, 503, every=5),
    series(Signal.GENERATION_RATE, 34.8, 2.1, 2.0, 2.0, every=5),
)


def test_short_prompts_behind_a_long_one_that_is_worked_at() -> None:
    verdict = HEAD_OF_LINE.judge(
        window(
            *PILE,
            fact("longest_prompt_tokens", 130_000, unit=Unit.TOKENS),
            fact("other_prompts_tokens_p95", 600, unit=Unit.TOKENS),
            fact("max_num_batched_tokens", 512),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert any("about 254 steps of 512 tokens" in sentence for sentence in verdict.evidence)


def test_without_lengths_it_asks_for_them() -> None:
    verdict = HEAD_OF_LINE.judge(window(*PILE))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("prompt lengths" in need for need in verdict.needs)


def test_prompts_of_one_length_or_a_full_cache_are_no_such_line() -> None:
    alike = (
        fact("longest_prompt_tokens", 9_000, unit=Unit.TOKENS),
        fact("other_prompts_tokens_p95", 8_000, unit=Unit.TOKENS),
    )
    verdict = HEAD_OF_LINE.judge(window(*PILE, *alike))
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE
    full = (*PILE[:2], series(Signal.KV_USAGE, 0.97, 0.98, 0.98, 0.99, every=5), *PILE[3:])
    assert HEAD_OF_LINE.judge(window(*full)) is None


def test_room_that_was_promised_to_one_long_answer_holds_the_others_up() -> None:
    verdict = HEAD_OF_LINE.judge(
        window(
            series(Signal.RUNNING, 1, 1, 1, every=60),
            series(Signal.WAITING, 3, 9, 14, every=60),
            series(Signal.KV_USAGE, 0.06, 0.15, 0.24, every=60),
            series(Signal.KV_CAPACITY, 12352, 12352, 12352, every=60),
            fact("running_request_max_tokens", 11_900, unit=Unit.TOKENS),
            fact("waiting_max_tokens_p95", 256, unit=Unit.TOKENS),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert any("96 % of the cache" in sentence for sentence in verdict.evidence)


def test_a_head_that_wants_an_adapter_holds_up_those_that_want_none() -> None:
    verdict = HEAD_OF_LINE.judge(
        window(
            series(Signal.RUNNING, 7, 6, every=30),
            series(Signal.WAITING, 12, 31, every=30),
            series(Signal.KV_USAGE, 0.06, 0.05, every=30),
            series(Signal.GENERATION_TOKENS, 500, 9388, every=30),
            fact("max_num_seqs", 64),
            fact("first_in_queue", "wants adapter L5"),
            fact("in_queue_without_adapter", 22),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_a_queue_alone_says_nothing() -> None:
    assert HEAD_OF_LINE.judge(window(series(Signal.WAITING, 3, 4, 5))) is None


def test_chunks_of_one_prompt_before_a_queue_of_short_ones_though_nobody_decodes() -> None:
    chunk = "Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, #queue-req: {}"
    reading = (
        series(Signal.RUNNING, 0, 0, 0, every=9),
        series(Signal.WAITING, 7, 26, 51, every=9),
        series(Signal.KV_USAGE, 0.02, 0.05, 0.09, every=9),
        series(Signal.BATCH_COMPUTED_TOKENS, 8192, 8192, 8192, every=9),
    )
    lines = [chunk.format(waiting) for waiting in (7, 26, 51)]
    known = told(18, longest_prompt_tokens=128_000, other_prompts_tokens_p95=420)
    verdict = HEAD_OF_LINE.judge(window(*reading, *lines, known, engine="sglang"))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_steady_prefill_of_a_batch_is_no_long_prompt() -> None:
    many = (
        series(Signal.RUNNING, 3, 2, every=5),
        series(Signal.WAITING, 71, 72, every=5),
        series(Signal.KV_USAGE, 0.009, 0.007, every=5),
        series(Signal.PROMPT_RATE, 1480, 1467, every=5),
        series(Signal.GENERATION_RATE, 22, 22, every=5),
    )
    verdict = HEAD_OF_LINE.judge(window(*many, fact("max_num_seqs", 512)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE

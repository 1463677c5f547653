"""Slots that share a pool or take turns, and a full cache in which fewer and fewer fit."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.cache.grown_contexts import GROWN_CONTEXTS
from controlplane.diagnosis.rules.cache.thrash import THRASH
from controlplane.diagnosis.rules.memory.decode import DECODE_GROWTH
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, series, told, window
from tests.controlplane.diagnosis.rules.evidence import reckoned


def prompt(slot: int, tokens: int, context: int = 16_384) -> Line:
    return Line(
        text=f"id {slot} | new prompt, n_ctx_slot = {context}, task.n_tokens = {tokens}",
        kind=LogKind.PROMPT_STARTED,
        fields={"tokens": tokens, "context": context},
        words={"slot": str(slot)},
    )


def kept(tokens: int) -> Line:
    return Line(
        text=f"memory_seq_rm [{tokens}, end)",
        kind=LogKind.CACHE_CUT,
        fields={"from": tokens},
        words={"slot": "0"},
    )


EXCEEDED = Line(
    text="send_error: task id = 1, error: Context size has been exceeded.",
    kind=LogKind.OUT_OF_MEMORY,
    words={"stage": "decode"},
)


def test_slots_that_were_let_in_short_outgrow_the_pool_that_each_was_promised() -> None:
    four = (prompt(0, 912), prompt(1, 880), prompt(2, 1034), prompt(3, 901), EXCEEDED)
    known = told(9, ctx_size=16_384, tokens_at_the_end="4107 + 4075 + 4106 + 4096")
    verdict = GROWN_CONTEXTS.judge(window(*four, known, engine="llama.cpp"))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {4107, 4075, 4106, 4096, 16_384} <= reckoned(verdict)
    assert DECODE_GROWTH.judge(window(*four, known, engine="llama.cpp")) is None
    apart = (*(prompt(slot, 900, 4096) for slot in range(4)), EXCEEDED)
    split = window(*apart, told(9, ctx_size=16_384), engine="llama.cpp")
    assert GROWN_CONTEXTS.judge(split) is None, "each has a part of its own"


def test_two_conversations_in_one_slot_throw_each_other_out() -> None:
    turns = (prompt(0, 24_150), kept(5120), prompt(0, 31_880), kept(5120))
    again = (*turns, prompt(0, 24_610), kept(5120))
    verdict = THRASH.judge(window(*again, told(9, parallel=1, conversations=2)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert THRASH.judge(window(*again, told(9, parallel=4, conversations=2))) is None
    grows = (prompt(0, 24_150), kept(24_000), prompt(0, 24_600), kept(24_500), prompt(0, 25_000))
    assert THRASH.judge(window(*grows, kept(24_900))) is None


FULL: tuple[Series, ...] = (
    series(Signal.RUNNING, 247, 241, 233, 226, 219, every=5),
    series(Signal.WAITING, 740, 746, 754, 761, 768, every=5),
    series(Signal.KV_USAGE, 0.997, 0.996, 0.997, 0.999, 1.0, every=5),
    series(Signal.GENERATION_RATE, 2136, 1970, 2349, 2161, 2103, every=5),
    series(Signal.PROMPT_RATE, 0, 0, 0, 0, 0, every=5),
)


def test_fewer_fit_into_a_full_cache_though_nothing_is_read_again() -> None:
    verdict = GROWN_CONTEXTS.judge(window(*FULL, told(20, tokens_recomputed_last_20_s=0)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    unknown = GROWN_CONTEXTS.judge(window(*FULL))
    assert unknown is None or unknown.confidence is Confidence.POSSIBLE


def test_a_cache_that_fills_by_far_less_than_is_written_holds_what_is_nobodys() -> None:
    climbing = (
        series(Signal.RUNNING, 2, 2, 2, every=1200),
        series(Signal.WAITING, 0, 0, 3, every=1200),
        series(Signal.KV_USAGE, 0.21, 0.6, 0.97, every=1200),
        series(Signal.CONTEXT_TOKENS, 11_200, 31_850, 51_700, every=1200),
    )
    quick = series(Signal.GENERATION_RATE, 88, 87, 85, every=1200)
    assert GROWN_CONTEXTS.judge(window(*climbing, quick)) is None
    slow = series(Signal.GENERATION_RATE, 17, 17, 17, every=1200)
    assert GROWN_CONTEXTS.judge(window(*climbing, slow)) is not None

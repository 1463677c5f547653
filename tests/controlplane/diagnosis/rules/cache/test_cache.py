from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.cache.grown_contexts import GROWN_CONTEXTS
from controlplane.diagnosis.rules.cache.nothing_shared import NOTHING_SHARED
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
from controlplane.diagnosis.rules.cache.thrash import THRASH
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import Line, fact, said, series, window
from tests.controlplane.diagnosis.rules.evidence import cited, repeated

FULL = series(Signal.KV_USAGE, 0.99, 0.99, every=60)
BATCH = series(Signal.RUNNING, 100, 100, every=60)


def _retracted(at: float) -> Line:
    return said(LogKind.RETRACTED, "KV cache pool is full. Retract requests.", at=at, num=2)


def test_preemptions_that_cost_with_a_full_cache_are_thrash() -> None:
    found = window(FULL, BATCH, series(Signal.PREEMPTIONS, 371, 603, every=60))
    verdict = THRASH.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    ends = {("test:preemptions", "371"), ("test:preemptions", "603")}
    assert ends <= cited(found, verdict)


def test_tokens_that_were_counted_as_given_up_make_it_certain() -> None:
    verdict = THRASH.judge(
        window(
            FULL,
            BATCH,
            series(Signal.PREEMPTIONS, 0, 200, every=60),
            series(Signal.RETRACTED_TOKENS, 0, 400_000, every=60),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_a_few_preemptions_for_many_answers_are_none() -> None:
    cheap = (
        series(Signal.PREEMPTIONS, 118, 124, every=60),
        series(Signal.FINISHED, 1180, 1245, every=60),
    )
    assert THRASH.judge(window(FULL, BATCH, *cheap)) is None


def test_retractions_of_a_log_are_counted_over_their_time() -> None:
    lines = [_retracted(at) for at in (0, 6, 12, 18)]
    usage = series(Signal.KV_USAGE, 0.99, 0.95, 0.99, every=9)
    verdict = THRASH.judge(window(*lines, usage, series(Signal.RUNNING, 10, 9, 10, every=9)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_one_retraction_asks_for_the_rate() -> None:
    verdict = THRASH.judge(
        window(
            _retracted(3),
            series(Signal.GENERATION_RATE, 429, 429, 38, 20),
            series(Signal.RUNNING, 4, 4, 6, 6),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("cuda graph" in need for need in verdict.needs)


def test_requests_put_aside_in_a_full_cache_are_thrash_without_a_counter() -> None:
    paused = series(Signal.PAUSED, 11, 14, 19, every=30)
    usage = series(Signal.KV_USAGE, 0.99, 0.99, 0.99, every=30)
    verdict = THRASH.judge(window(paused, usage, series(Signal.RUNNING, 48, 46, 47, every=30)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def _longer() -> tuple[Series, ...]:
    return (
        series(Signal.KV_USAGE, 0.59, 0.94, 0.93, every=1800),
        series(Signal.RUNNING, 16, 8, 4, every=1800),
        series(Signal.WAITING, 0, 8, 12, every=1800),
    )


def test_fewer_fit_because_each_is_longer() -> None:
    lengths = (
        fact("mean_context_tokens", 5600, unit=Unit.TOKENS, at=0),
        fact("mean_context_tokens", 17800, unit=Unit.TOKENS, at=3600),
    )
    found = window(*_longer(), *lengths)
    verdict = GROWN_CONTEXTS.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    ends = {("mean_context_tokens", "5600"), ("mean_context_tokens", "17800")}
    assert ends <= cited(found, verdict)
    thrown_out = series(Signal.PREEMPTIONS, 0, 400, 900, every=60, start=3480)
    assert GROWN_CONTEXTS.judge(window(*_longer(), *lengths, thrown_out)) is None


def test_two_that_go_on_writing_fill_the_cache() -> None:
    filling = (
        series(Signal.KV_USAGE, 0.58, 0.75, 0.91, 0.995, every=100),
        series(Signal.RUNNING, 2, 2, 2, 2, every=100),
        series(Signal.WAITING, 0, 0, 0, 0, every=100),
        series(Signal.PROMPT_RATE, 0, 0, 0, 0, every=100),
    )
    verdict = GROWN_CONTEXTS.judge(window(*filling, fact("max_num_seqs", 20)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    forecast = GROWN_CONTEXTS.judge(window(*filling))
    assert forecast is not None
    assert forecast.confidence is Confidence.POSSIBLE, "nobody waits, and nobody is thrown out"


def test_a_batch_as_long_as_before_has_not_grown() -> None:
    usage = series(Signal.KV_USAGE, 0.95, 0.96, every=600)
    assert GROWN_CONTEXTS.judge(window(usage, series(Signal.RUNNING, 20, 20, every=600))) is None


def _hits(*hits: float) -> tuple[Series, ...]:
    asked = (1_000_000, 1_100_000, 1_200_000)
    return series(Signal.PREFIX_QUERIES, *asked), series(Signal.PREFIX_HITS, *hits)


def test_hits_that_were_there_and_are_not_any_more_are_lost() -> None:
    changed = Change(at=5, what="system prompt begins with the date")
    found = window(*_hits(800_000, 801_000, 802_000), changed)
    verdict = PREFIX_LOSS.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert changed.what in repeated(found, verdict)
    assert PREFIX_LOSS.judge(window(*_hits(800_000, 878_000, 955_000), changed)) is None


def test_a_rate_that_is_merely_low_is_no_loss() -> None:
    assert PREFIX_LOSS.judge(window(*_hits(50_000, 54_000, 58_000))) is None


def test_a_slot_that_reads_again_what_it_holds_is_certain() -> None:
    verdict = PREFIX_LOSS.judge(
        window(
            said(LogKind.SLOT_CHOSEN, "selected slot by LCP similarity", similarity=0.99),
            said(LogKind.PROMPT_STARTED, "new prompt", tokens=9683),
            said(LogKind.FULL_REPROCESS, "forcing full prompt re-processing"),
            said(LogKind.PROMPT_EVALUATED, "prompt eval time", tokens=9683, seconds=12.4),
            engine="llama.cpp",
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_one_replica_that_finds_nothing_of_what_the_others_find() -> None:
    verdict = PREFIX_LOSS.judge(
        window(
            series(Signal.PREFIX_QUERIES, 1_148_200, replica="a"),
            series(Signal.PREFIX_QUERIES, 88_104_900, replica="b"),
            series(Signal.PREFIX_HITS, 0, replica="a"),
            series(Signal.PREFIX_HITS, 84_668_800, replica="b"),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_longer_prompts_that_find_as_much_as_before_lost_nothing() -> None:
    verdict = PREFIX_LOSS.judge(
        window(
            series(Signal.PREFIX_QUERIES, 0, 100, 200, 300, 1100, 2100, 3100),
            series(Signal.PREFIX_HITS, 0, 80, 160, 240, 320, 400, 480),
            series(Signal.FINISHED, 0, 1, 2, 3, 4, 5, 6),
        )
    )
    assert verdict is None


def test_a_block_larger_than_what_is_shared_never_hits() -> None:
    none = _hits(0, 0, 0)
    for shared in (fact("shared_prefix_tokens", 480), fact("max_model_len", 500)):
        verdict = NOTHING_SHARED.judge(window(*none, fact("block_size", 528), shared))
        assert verdict is not None
        assert verdict.confidence is Confidence.CERTAIN
    open_case = NOTHING_SHARED.judge(window(*none, fact("block_size", 16)))
    assert open_case is not None
    assert open_case.confidence is Confidence.POSSIBLE
    assert any("share" in need for need in open_case.needs)


def test_prompts_that_begin_differently_share_nothing() -> None:
    note = fact("prompt_begins_with", "Current time is 15:09:20 ... Current time is 15:09:34")
    verdict = NOTHING_SHARED.judge(window(*_hits(0, 0, 0), note))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert NOTHING_SHARED.judge(window(*_hits(800_000, 801_000, 802_000), note)) is None


def test_thrash_stands_above_what_follows_from_it() -> None:
    assert Mechanism.QUEUE_OVERLOAD in THRASH.explains
    assert Mechanism.CACHE_GROWN_CONTEXTS in THRASH.explains


def test_nobody_asks_about_hits_while_an_engine_stands_still() -> None:
    def judged(rate: float) -> bool:
        busy = series(Signal.RUNNING, 2, 2, 2)
        rates = (series(Signal.GENERATION_RATE, 44, 44, rate), series(Signal.HIT_RATE, 0, 0, 0))
        return NOTHING_SHARED.judge(window(busy, *rates)) is not None

    assert judged(44)
    assert not judged(0)


def test_a_change_makes_nothing_surer() -> None:
    """It is cited, and never a cause for that alone."""
    fallen = _hits(800_000, 860_000, 900_000, 940_000)
    changed = Change(at=5, what="memory plugin enabled in the coding client")
    found = window(*fallen, changed)
    alone, beside = PREFIX_LOSS.judge(window(*fallen)), PREFIX_LOSS.judge(found)
    assert alone is not None
    assert beside is not None
    assert alone.confidence is beside.confidence is Confidence.POSSIBLE
    assert changed.what in repeated(found, beside)


def test_more_computed_than_asked_is_certain_only_after_several_answers() -> None:
    """Computed tokens are counted by step, and those of prompts when an answer ends."""
    ramp = (
        series(Signal.PREEMPTIONS, 0, 200, every=60),
        series(Signal.COMPUTED_PROMPT_TOKENS, 0, 40_000, every=60),
        series(Signal.PROMPT_TOKENS, 0, 20_000, every=60),
    )
    few = THRASH.judge(window(FULL, BATCH, *ramp, series(Signal.FINISHED, 0, 30, every=60)))
    many = THRASH.judge(window(FULL, BATCH, *ramp, series(Signal.FINISHED, 0, 400, every=60)))
    assert few is not None
    assert few.confidence is Confidence.LIKELY
    assert many is not None
    assert many.confidence is Confidence.CERTAIN


def test_few_retractions_of_long_contexts_cost_as_much_as_many_of_short_ones() -> None:
    """Four of 3,400 tokens within 20 s, beside a thousand tokens a second."""
    lines = [
        said(LogKind.RETRACTED, "Decode out of memory happened.", at=at, num=num)
        for at, num in ((3, 1), (15, 1), (21, 2))
    ]
    batch = (
        series(Signal.RUNNING, 118, 116, every=24),
        series(Signal.KV_USAGE, 0.99, 0.99, every=24),
        series(Signal.GENERATION_RATE, 1402, 830, every=24),
    )
    short = THRASH.judge(
        window(*lines, *batch, series(Signal.CONTEXT_TOKENS, 9000, 9000, every=24))
    )
    long = THRASH.judge(
        window(*lines, *batch, series(Signal.CONTEXT_TOKENS, 401_120, 402_004, every=24))
    )
    assert long is not None
    assert long.confidence is Confidence.LIKELY
    assert short is None or short.confidence is Confidence.POSSIBLE

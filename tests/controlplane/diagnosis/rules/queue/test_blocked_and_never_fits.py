import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.blocked import BLOCKED
from controlplane.diagnosis.rules.queue.head_of_line import HEAD_OF_LINE
from controlplane.diagnosis.rules.queue.never_fits import NEVER_FITS
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, said, series, window

STUCK: tuple[Series, ...] = (
    series(Signal.RUNNING, 0, 0, 0),
    series(Signal.WAITING, 6, 6, 6),
    series(Signal.KV_USAGE, 0, 0, 0),
    series(Signal.GENERATION_TOKENS, 900, 900, 900),
)


def test_nothing_runs_beside_room_and_the_gateway_has_them_too() -> None:
    verdict = BLOCKED.judge(
        window(
            *STUCK,
            series(Signal.KV_CAPACITY, 90000, 90000, 90000),
            fact("in_flight", 6, at=20),
            fact("longest_prompt_tokens", 21000, unit=Unit.TOKENS, at=20),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert any("unchanged" in sentence for sentence in verdict.evidence)
    assert any("queue.never_fits" in sentence for sentence in verdict.against)


def test_without_a_truth_beside_the_engine_it_asks_for_one() -> None:
    verdict = BLOCKED.judge(window(*STUCK))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "requests in flight at the gateway" in verdict.needs


def test_a_queue_that_grows_shows_that_its_gauge_is_alive() -> None:
    alive = (STUCK[0], series(Signal.WAITING, 2, 4, 9), *STUCK[2:])
    short = fact("longest_prompt_tokens", 500, unit=Unit.TOKENS)
    verdict = BLOCKED.judge(window(*alive, short))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    unknown = BLOCKED.judge(window(*alive))
    assert unknown is not None
    assert unknown.confidence is Confidence.POSSIBLE


def test_gauges_that_the_truth_denies_are_frozen_and_not_blocked() -> None:
    assert BLOCKED.judge(window(*STUCK, fact("in_flight", 0, at=20))) is None
    assert BLOCKED.judge(window(*STUCK, fact("probe", "answered in 0.3 s", at=20))) is None


@pytest.mark.parametrize(
    "told",
    [
        fact("probe_one_token", "failed after 3.0 s (ReadError)", at=20),
        fact("probe_one_token", "refused with 503 in 0.1 s: busy", at=20),
        fact("liveness_probe_interval_s", 10, at=20),
    ],
    ids=lambda told: told.raw,
)
def test_a_probe_that_was_not_answered_and_a_setting_deny_nothing(told: Fact) -> None:
    alive = (STUCK[0], series(Signal.WAITING, 2, 4, 9), *STUCK[2:])
    short = fact("longest_prompt_tokens", 500, unit=Unit.TOKENS)
    verdict = BLOCKED.judge(window(*alive, short, told))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_blocks_of_requests_that_are_put_aside_do_not_excuse_it() -> None:
    full = (*STUCK[:2], series(Signal.KV_USAGE, 0.98, 0.98, 0.98), STUCK[3])
    parked = BLOCKED.judge(
        window(*full, series(Signal.DEFERRED, 22, 22, 22), fact("in_flight", 6, at=20))
    )
    assert parked is not None
    assert parked.confidence >= Confidence.LIKELY
    unknown = BLOCKED.judge(window(*full, fact("in_flight", 6, at=20)))
    assert unknown is not None
    assert unknown.confidence is Confidence.POSSIBLE
    assert "who holds the blocks of the KV cache" in unknown.needs


def test_a_batch_that_crawls_while_none_is_admitted_is_blocked_too() -> None:
    verdict = BLOCKED.judge(
        window(
            series(Signal.RUNNING, 4, 4, every=60),
            series(Signal.WAITING, 487, 492, every=60),
            series(Signal.WAITING_BY_REASON, 468, 473, every=60, reason="deferred"),
            series(Signal.KV_USAGE, 0.2, 0.2, every=60),
            series(Signal.GENERATION_TOKENS, 1000, 1029, every=60),
            series(Signal.FINISHED, 77, 77, every=60),
            fact("max_num_seqs", 256),
            fact("in_flight", 496, at=60),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_progress_beside_a_queue_with_room_asks_what_keeps_them_out() -> None:
    verdict = BLOCKED.judge(
        window(
            series(Signal.RUNNING, 1, 1, 1, 1),
            series(Signal.WAITING, 3, 3, 3, 3),
            series(Signal.KV_USAGE, 0.03, 0.03, 0.03, 0.03),
            series(Signal.GENERATION_RATE, 45, 46, 45, 46),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("LoRA" in need for need in verdict.needs)


@pytest.mark.parametrize(
    ("key", "tokens"), [("head_request_prompt_tokens", 100_000), ("largest_prompt_len", 76_640)]
)
def test_a_head_longer_than_the_whole_cache_never_fits(key: str, tokens: float) -> None:
    verdict = NEVER_FITS.judge(
        window(
            *STUCK,
            said(LogKind.STARTING, "Using max model len 262144", max_model_len=262144),
            said(LogKind.KV_CACHE_SIZED, "GPU KV cache size: 76,639 tokens", tokens=76639),
            fact(key, tokens, unit=Unit.TOKENS),
            fact("in_flight", 6, at=20),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert any("max model len 262144 lets it in" in sentence for sentence in verdict.evidence)
    assert Mechanism.QUEUE_BLOCKED in NEVER_FITS.explains


def test_an_answer_that_does_not_fit_behind_its_prompt_counts() -> None:
    sized = (series(Signal.KV_CAPACITY, 1000, 1000, 1000), fact("prompt_tokens", 900))
    assert NEVER_FITS.judge(window(*STUCK, *sized)) is None
    verdict = NEVER_FITS.judge(window(*STUCK, *sized, fact("max_tokens", 200)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_the_only_request_that_is_thrown_out_again_and_again_never_fits() -> None:
    verdict = NEVER_FITS.judge(
        window(
            series(Signal.RUNNING, 1, 0, every=30),
            series(Signal.WAITING, 0, 1, every=30),
            series(Signal.PREEMPTIONS, 118, 412, every=30),
            series(Signal.GENERATION_TOKENS, 8, 8, every=30),
            fact("in_flight", 1, at=30),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_one_rank_alone_can_be_stuck() -> None:
    parts = [
        series(Signal.RUNNING, 11, 10, every=60, engine="0"),
        series(Signal.RUNNING, 0, 0, every=60, engine="1"),
        series(Signal.WAITING, 0, 0, every=60, engine="0"),
        series(Signal.WAITING, 2, 9, every=60, engine="1"),
        series(Signal.KV_CAPACITY, 1000, 1000, every=60, engine="0"),
        series(Signal.KV_CAPACITY, 1000, 1000, every=60, engine="1"),
    ]
    verdict = NEVER_FITS.judge(window(*parts, fact("first_in_queue_prompt_tokens", 1200)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert verdict.detail == "at 1"


def test_a_cache_smaller_than_the_longest_context_is_only_a_hint() -> None:
    verdict = NEVER_FITS.judge(
        window(*STUCK, series(Signal.KV_CAPACITY, 900, 900, 900), fact("max_model_len", 8000))
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "prompt length of the request at the head" in verdict.needs


def test_what_moves_is_neither() -> None:
    moving = (*STUCK[:3], series(Signal.GENERATION_TOKENS, 900, 950, 990))
    prompt = fact("longest_prompt_tokens", 100_000)
    pool = series(Signal.KV_CAPACITY, 900, 900, 900)
    assert NEVER_FITS.judge(window(*moving, prompt, pool)) is None
    assert BLOCKED.judge(window(*moving, prompt, pool)) is None


def test_those_that_are_put_off_while_others_are_served_are_blocked() -> None:
    shown = (
        series(Signal.RUNNING, 0, 0, every=240),
        series(Signal.WAITING, 5, 5, every=240),
        series(Signal.KV_USAGE, 0, 0, every=240),
        series(Signal.FINISHED, 211, 219, every=240),
        fact("in_flight", 5, at=240),
    )
    deferred = series(Signal.WAITING_BY_REASON, 5, 5, every=240, reason="deferred")
    verdict = BLOCKED.judge(window(*shown, deferred))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert BLOCKED.judge(window(*shown)) is None


def test_where_nobody_counts_the_queue_those_in_flight_beside_an_idle_engine_wait() -> None:
    verdict = NEVER_FITS.judge(
        window(
            fact("in_flight", 1),
            fact("running", 0),
            fact("kv_pool_tokens", 8209, unit=Unit.TOKENS),
            fact("stuck_prompt_tokens", 11600, unit=Unit.TOKENS),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_all_that_wait_were_put_off_and_none_for_want_of_blocks() -> None:
    put_off = (
        *STUCK,
        series(Signal.WAITING_BY_REASON, 0, 0, 0, reason="capacity"),
        series(Signal.WAITING_BY_REASON, 6, 6, 6, reason="deferred"),
    )
    verdict = BLOCKED.judge(window(*put_off, fact("in_flight", 6, at=20)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_prompts_that_wait_and_hold_all_blocks_between_them() -> None:
    parked = (
        series(Signal.RUNNING, 0, 0, every=40),
        series(Signal.WAITING, 2, 2, every=40),
        series(Signal.KV_USAGE, 1.0, 1.0, every=40),
        series(Signal.KV_CAPACITY, 8192, 8192, every=40),
        series(Signal.GENERATION_TOKENS, 96, 96, every=40),
    )
    inside = fact("in_flight", 2, at=40)
    verdict = BLOCKED.judge(window(*parked, inside, fact("prompt_tokens", "4096 and 4080", at=40)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    others = BLOCKED.judge(window(*parked, inside, fact("prompt_tokens", "512 and 640", at=40)))
    assert others is not None
    assert others.confidence is Confidence.POSSIBLE


def test_a_scheduler_that_slept_until_somebody_else_came() -> None:
    slept = (
        series(Signal.RUNNING, 0, 0, 2, every=180),
        series(Signal.WAITING, 1, 1, 0, every=180),
        series(Signal.KV_USAGE, 0, 0, 0.02, every=180),
        series(Signal.GENERATION_TOKENS, 900, 900, 1900, every=180),
        series(Signal.KV_CAPACITY, *[1_040_000] * 3, every=180),
    )
    prompt = fact("waiting_prompt_tokens", 24_000, unit=Unit.TOKENS, at=300)
    verdict = BLOCKED.judge(window(*slept, prompt, fact("in_flight", 1, at=300)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert "goes on" in verdict.evidence[-1]
    moment = (series(Signal.RUNNING, 0, 2, 2), series(Signal.WAITING, 1, 0, 0), *slept[2:])
    assert BLOCKED.judge(window(*moment)) is None


@pytest.mark.parametrize("key", ["longest_prompt_answered_tokens", "other_prompts_tokens_p95"])
def test_what_others_were_long_says_nothing_of_the_one_in_front(key: str) -> None:
    known = (fact("in_flight", 6, at=20), fact(key, 900, unit=Unit.TOKENS, at=20))
    verdict = BLOCKED.judge(window(*STUCK, series(Signal.KV_CAPACITY, 9000, 9000, 9000), *known))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_a_pause_that_somebody_told_of_is_no_block() -> None:
    known = (fact("in_flight", 6, at=20), fact("longest_prompt_tokens", 90, unit=Unit.TOKENS))
    verdict = BLOCKED.judge(window(*STUCK, *known, fact("paused_for", "weight update")))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_a_cache_that_fills_though_nothing_is_written_is_a_prompt_that_is_read() -> None:
    reading = (
        series(Signal.RUNNING, 1, 1, 1, 1),
        series(Signal.WAITING, 2, 3, 4, 5),
        series(Signal.KV_USAGE, 0.05, 0.07, 0.09, 0.11),
        series(Signal.GENERATION_TOKENS, 900, 900, 900, 900),
        series(Signal.FINISHED, 4, 4, 4, 4),
    )
    assert not _is_likely(BLOCKED.judge(window(*reading, fact("in_flight", 6, at=30))))
    assert not _is_likely(HEAD_OF_LINE.judge(window(*reading)))
    prompt = fact("longest_prompt_tokens", 128_000, unit=Unit.TOKENS)
    assert _is_likely(HEAD_OF_LINE.judge(window(*reading, prompt)))


def _is_likely(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.confidence >= Confidence.LIKELY


def test_a_warning_about_the_limit_is_of_no_request() -> None:
    line = "max_model_len 131072 is larger than the 90464 tokens that fit the KV cache"
    assert not _is_likely(NEVER_FITS.judge(window(line)))
    asked = "Input prompt (90000 tokens) is too long for the KV cache"
    assert _is_likely(NEVER_FITS.judge(window(asked)))


HELD: tuple[Series, ...] = (
    series(Signal.RUNNING, 0, 0, 0, every=60),
    series(Signal.WAITING, 4, 4, 5, every=60),
    series(Signal.KV_USAGE, 0.75, 0.75, 0.75, every=60),
    series(Signal.GENERATION_TOKENS, 900, 900, 900, every=60),
    series(Signal.KV_CAPACITY, 400_000, 400_000, 400_000, every=60),
)
"""Nobody runs, and three quarters of the cache are held."""


def test_blocks_of_those_that_were_put_off_are_no_reason_to_admit_none() -> None:
    long = fact("longest_prompt_tokens", 200_000, unit=Unit.TOKENS, at=120)
    inside = fact("in_flight", 5, at=120)
    put_off = (
        series(Signal.WAITING_BY_REASON, 4, 4, 4, every=60, reason="capacity"),
        series(Signal.WAITING_BY_REASON, 0, 1, 1, every=60, reason="deferred"),
    )
    verdict = BLOCKED.judge(window(*HELD, *put_off, inside, long))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    for other in (window(*HELD, inside, long), window(*HELD, *put_off, fact("in_flight", 9), long)):
        verdict = BLOCKED.judge(other)
        assert verdict is not None
        assert verdict.confidence is Confidence.POSSIBLE


def test_what_is_free_holds_the_longest_prompt_whoever_holds_the_rest() -> None:
    short = fact("longest_prompt_tokens", 90_000, unit=Unit.TOKENS, at=120)
    verdict = BLOCKED.judge(window(*HELD, fact("in_flight", 5, at=120), short))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN

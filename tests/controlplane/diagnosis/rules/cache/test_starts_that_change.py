"""What is looked up in long steps, begins differently each time, or is cut at its start."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules.cache.nothing_shared import NOTHING_SHARED
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, series, told, window
from tests.controlplane.diagnosis.rules.evidence import reckoned, weighed


@pytest.mark.parametrize("key", ["scheduler_block_size", "hash_block_size", "prefix_granularity"])
def test_a_prefix_below_the_step_in_which_it_is_looked_up_is_never_found(key: str) -> None:
    seen = (
        series(Signal.PREFIX_QUERIES, 0, 400_000, every=300),
        series(Signal.PREFIX_HITS, 0, 0, every=300),
        series(Signal.KV_BLOCK_SIZE, 16, 16, every=300),
    )
    below = window(*seen, told(300, shared_prefix_tokens=1_800, prompt_tokens=2_000, **{key: 4096}))
    assert PREFIX_LOSS.judge(below) is None
    verdict = NOTHING_SHARED.judge(below)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    above = window(*seen, told(300, shared_prefix_tokens=1_800, prompt_tokens=2_000, **{key: 256}))
    lost = PREFIX_LOSS.judge(above)
    assert lost is not None
    assert lost.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    "step",
    [
        {"scheduler_chunk_size": 4096},
        {"attention_chunk_size": 8192},
        {"prefix_cache_chunk": 4096},
        {"scheduler_step_tokens": 4096},
        {"attention_chunk_alignment": 4096},
        {"cache_alignment_bytes": 4096},
        {"attention_block_size": 4100},
    ],
    ids=lambda step: next(iter(step)),
)
def test_what_is_no_block_of_a_cache_explains_no_missing_hits(step: dict[str, float]) -> None:
    seen = window(
        series(Signal.PREFIX_QUERIES, 0, 400_000, every=300),
        series(Signal.PREFIX_HITS, 0, 0, every=300),
        series(Signal.KV_BLOCK_SIZE, 16, 16, every=300),
        told(300, shared_prefix_tokens=1_800, prompt_tokens=2_000, **step),
    )
    verdict = NOTHING_SHARED.judge(seen)
    assert verdict is None or verdict.confidence < Confidence.LIKELY
    lost = PREFIX_LOSS.judge(seen)
    assert lost is not None
    assert lost.confidence is Confidence.CERTAIN


def requests(*found: float, starts: str) -> list[tuple[Fact, ...]]:
    return [
        told(
            60.0 * place,
            prompt_tokens=60_000 + place,
            cached_tokens=cached,
            first_line_hash=start,
            rest_of_prompt_hash="77d0",
        )
        for place, (cached, start) in enumerate(zip(found, starts, strict=True))
    ]


def test_a_first_line_that_is_another_one_each_time_leaves_nothing_to_find() -> None:
    verdict = NOTHING_SHARED.judge(window(*requests(0, 40, 40, starts="abc")))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {Mechanism.CACHE_PREFIX_LOSS, Mechanism.CACHE_THRASH} <= weighed(verdict)
    assert NOTHING_SHARED.judge(window(*requests(0, 40, 40, starts="aab"))) is None
    assert NOTHING_SHARED.judge(window(*requests(0, 59_000, 40, starts="abc"))) is None


def turn(tokens: int, kept: int) -> tuple[Line, Line]:
    slot = {"slot": "0"}
    started = Line(
        text=f"new prompt, task.n_tokens = {tokens}",
        kind=LogKind.PROMPT_STARTED,
        fields={"tokens": tokens},
        words=slot,
    )
    cut = Line(
        text=f"memory_seq_rm [{kept}, end)",
        kind=LogKind.CACHE_CUT,
        fields={"from": kept},
        words=slot,
    )
    return started, cut


def test_a_conversation_that_is_cut_at_its_budget_loses_its_prefix() -> None:
    turns = (*turn(88_204, 86_911), *turn(95_711, 0), *turn(95_538, 0))
    alone = told(9, sessions=1, requests_between=0)
    verdict = PREFIX_LOSS.judge(window(*turns, alone, engine="llama.cpp"))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {86_911, 95_711, 95_538} <= reckoned(verdict)


def test_others_in_the_slot_or_another_conversation_are_no_such_loss() -> None:
    turns = (*turn(88_204, 86_911), *turn(95_711, 0), *turn(95_538, 0))
    alone = told(9, sessions=1, requests_between=0)
    several = told(9, sessions=3, requests_between=2)
    new = (*turn(88_204, 86_911), *turn(1_200, 0), *turn(1_300, 0))
    cold = (*turn(95_711, 0), *turn(95_538, 0))
    for found in (
        window(*turns, several, engine="llama.cpp"),
        window(*new, alone, engine="llama.cpp"),
        window(*cold, alone, engine="llama.cpp"),
    ):
        verdict = PREFIX_LOSS.judge(found)
        assert verdict is None or verdict.confidence is not Confidence.CERTAIN

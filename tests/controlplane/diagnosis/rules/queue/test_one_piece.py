"""All counters stand while others wait: a scheduler that admits nobody, a step that hangs, or one
long prompt that is computed in one piece. What is seen does not always tell which."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window

_EVERY = 5.0
_GROWS = (1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9)
_END = (len(_GROWS) - 1) * _EVERY


def _page(
    engine: str,
    *more: Series | Fact | tuple[Fact, ...],
    running: int,
    kv: float | None = 0.02,
    every: float = _EVERY,
) -> Window:
    """Requests come and wait, and nothing is counted, for a minute."""
    still = {Signal.RUNNING: running, Signal.GENERATION_TOKENS: 900, Signal.PROMPT_TOKENS: 5000}
    stands = [series(each, *[value] * len(_GROWS), every=every) for each, value in still.items()]
    if kv is not None:
        stands.append(series(Signal.KV_USAGE, *[kv] * len(_GROWS), every=every))
        stands.append(series(Signal.FINISHED, *[10] * len(_GROWS), every=every))
    queue = series(Signal.WAITING, *_GROWS, every=every)
    return window(queue, *stands, *more, engine=engine)


SIZED = (series(Signal.KV_CAPACITY, 800_000), fact("max_model_len", 131_072))
LONG = fact("longest_prompt_tokens", 30_000, unit=Unit.TOKENS, at=_END)
SHORT = fact("longest_prompt_tokens", 700, unit=Unit.TOKENS, at=_END)

UNKNOWN: dict[str, Window] = {
    "vllm, in the batch": _page("vllm", *SIZED, running=1),
    "vllm, that is told not to cut": _page("vllm", *SIZED, told(chunked_prefill="off"), running=1),
    "vllm, blocks are held by what does not run": _page("vllm", *SIZED, running=0),
    "vllm, and the gateway has one more": _page(
        "vllm", *SIZED, fact("in_flight", 10, at=_END), running=1
    ),
    "llama.cpp, one slot": _page("llama.cpp", told(total_slots=1), running=1, kv=None),
    "llama.cpp, and the gateway has one more": _page(
        "llama.cpp", told(_END, total_slots=1, in_flight=10), running=1, kv=None
    ),
    "llama.cpp, and a probe that waits behind it": _page(
        "llama.cpp",
        told(_END, total_slots=1, in_flight=10, probe_one_token="no answer in 30 s"),
        running=1,
        kv=None,
    ),
    "sglang, not yet in the batch": _page("sglang", *SIZED, running=0),
    "sglang, that does not cut": _page(
        "sglang", *SIZED, told(chunked_prefill_size=-1), running=0, kv=0.0
    ),
    "sglang, and the gateway has one more": _page(
        "sglang", *SIZED, fact("in_flight", 10, at=_END), running=0
    ),
    "tgi, not yet in the batch": _page("tgi", *SIZED, running=0),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_nothing_is_named_that_a_long_prompt_would_show_as_well(what: str) -> None:
    found = diagnose(UNKNOWN[what], BUILT_IN_RULES)
    assert found.mechanism is Mechanism.CANNOT_TELL
    assert Mechanism.QUEUE_HEAD_OF_LINE in {each.mechanism for each in found.possible}
    assert {need for need in found.needs if "prompt" in need}


SETTLED: dict[str, tuple[Mechanism, Window]] = {
    "its length, and that it is not cut": (
        Mechanism.QUEUE_HEAD_OF_LINE,
        _page("sglang", *SIZED, LONG, told(chunked_prefill_size=-1), running=0),
    ),
    "its length, at a server that counts it when it is done": (
        Mechanism.QUEUE_HEAD_OF_LINE,
        _page("llama.cpp", told(total_slots=1), LONG, running=1, kv=None),
    ),
    "no prompt is so long": (
        Mechanism.QUEUE_BLOCKED,
        _page("sglang", *SIZED, SHORT, running=0),
    ),
    "whoever is in flight waits": (
        Mechanism.QUEUE_BLOCKED,
        _page("sglang", *SIZED, fact("in_flight", 9, at=_END), running=0),
    ),
    "prompts are cut, and the cache does not fill": (
        Mechanism.QUEUE_BLOCKED,
        _page("sglang", *SIZED, told(chunked_prefill_size=8192), running=0),
    ),
    "a prompt would be in the batch and in the cache": (
        Mechanism.QUEUE_BLOCKED,
        _page("vllm", *SIZED, running=0, kv=0.0),
    ),
    "no prompt takes so long": (
        Mechanism.QUEUE_BLOCKED,
        _page("sglang", *SIZED, running=0, every=30.0),
    ),
    "a step of minutes": (
        Mechanism.ENGINE_HUNG,
        _page("vllm", *SIZED, running=1, every=30.0),
    ),
    "batches of a prompt would be counted": (
        Mechanism.ENGINE_HUNG,
        _page(
            "llama.cpp",
            series(Signal.STEPS, *[400] * len(_GROWS), every=30.0),
            told(330, in_flight=10),
            running=1,
            kv=None,
            every=30.0,
        ),
    ),
}


@pytest.mark.parametrize("by", SETTLED)
def test_it_is_named_by_what_settles_it(by: str) -> None:
    mechanism, page = SETTLED[by]
    assert diagnose(page, BUILT_IN_RULES).mechanism is mechanism


def _in_batches(*more: Fact | tuple[Fact, ...], seconds_each: float) -> Window:
    """llama.cpp counts tokens when a request is done, and steps as they end."""
    steps = [round(500 + index * _EVERY / seconds_each) for index in range(len(_GROWS))]
    counted = series(Signal.STEPS, *steps, every=_EVERY)
    return _page("llama.cpp", counted, *more, running=1, kv=None)


def test_slow_steps_of_which_nothing_is_counted_may_be_one_long_prompt() -> None:
    slots = told(total_slots=1)
    unknown = diagnose(_in_batches(slots, seconds_each=5), BUILT_IN_RULES)
    assert unknown.mechanism is Mechanism.CANNOT_TELL
    possible = {each.mechanism for each in unknown.possible}
    assert {Mechanism.QUEUE_HEAD_OF_LINE, Mechanism.QUEUE_OVERLOAD} <= possible
    named = diagnose(_in_batches(slots, LONG, seconds_each=5), BUILT_IN_RULES)
    assert named.mechanism is Mechanism.QUEUE_HEAD_OF_LINE
    written = diagnose(_in_batches(slots, seconds_each=0.1), BUILT_IN_RULES)
    assert written.mechanism is Mechanism.QUEUE_OVERLOAD


def test_a_queue_beside_free_slots_is_no_overload() -> None:
    found = diagnose(_in_batches(told(total_slots=4), seconds_each=0.1), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.CANNOT_TELL


def test_a_prompt_that_is_cut_fills_the_cache_before_it_is_in_the_batch() -> None:
    chunks = series(Signal.KV_USAGE, *(0.02 + 0.01 * step for step in range(12)), every=_EVERY)
    page = _page("sglang", *SIZED, chunks, running=0, kv=None)
    assert diagnose(page, BUILT_IN_RULES).mechanism is Mechanism.CANNOT_TELL
    known = _page("sglang", *SIZED, chunks, LONG, running=0, kv=None)
    found = diagnose(known, BUILT_IN_RULES)
    assert found.mechanism is Mechanism.QUEUE_HEAD_OF_LINE
    assert found.confidence is Confidence.CERTAIN


def test_prompts_that_are_counted_while_hardly_a_token_comes_are_no_blocked_scheduler() -> None:
    beside = (
        series(Signal.RUNNING, 2, 2, 2, 2),
        series(Signal.WAITING, 4, 7, 9, 12),
        series(Signal.KV_USAGE, 0.1, 0.1, 0.1, 0.1),
        series(Signal.GENERATION_TOKENS, 900, 903, 906, 909),
        series(Signal.FINISHED, 4, 4, 4, 4),
        fact("in_flight", 14, at=30),
    )
    reads = series(Signal.PROMPT_TOKENS, 5_000, 10_000, 15_000, 20_000)
    named = diagnose(window(*beside, reads), BUILT_IN_RULES)
    assert Mechanism.QUEUE_BLOCKED not in {each.mechanism for each in named.findings}
    still = series(Signal.PROMPT_TOKENS, 5_000, 5_000, 5_000, 5_000)
    blocked = diagnose(window(*beside, still), BUILT_IN_RULES)
    assert blocked.mechanism is Mechanism.QUEUE_BLOCKED

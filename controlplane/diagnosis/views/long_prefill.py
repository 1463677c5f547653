"""For how long counters that stand may be one long prompt, which is counted when it is done.

prompts are    what stands meanwhile                          bound
cut            nothing: the cache fills with each chunk       one chunk
in one piece   every counter, and the gauges of some engines  its tokens at the slowest pace
unknown        either                                         a long one on one device
"""

import re

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.prompts import longest_prompt
from controlplane.diagnosis.views.told import (
    numbers_in,
    says_no,
    says_yes,
    share_of,
    told,
    told_all,
)
from dataplane.engine_metrics.signal import Signal

_PROMPT_SECONDS = 1800.0
"""No prompt is computed for half an hour, not even on a CPU: 100,000 tokens at 60 tokens/s."""
_SLOWEST = 60.0
"""Tokens a second."""
ONE_PIECE_SECONDS = 90.0
"""100,000 tokens that are not cut, on one device; for where nobody knows whether they are."""
_CHUNK_SECONDS = 10.0
_LONG_TOKENS = 32_000
"""Unchunked, or beside a full batch, it takes tens of seconds on one device."""
_COUNTED_AT_END = frozenset({"llama.cpp"})
"""Engines that export a prompt's tokens only when all are computed, and no use of their cache."""
_RUNS_WHILE_READ = frozenset({"vllm", "llama.cpp", "pilothouse"})
"""Engines of which a prompt that is computed is among those that run. In SGLang and TGI it is not
before its first token, while others are seen to wait."""
_FEW_TOKENS = 2_000
"""Held in the cache: less than a prompt that takes longer than a step or two."""
_FEWEST_STEPS_SECONDS = 60.0
"""A batch of a prompt ends within it: 2,048 tokens at the slowest pace take 34 s."""
_SLOW_STEPS = 2.0
"""A second."""
_LEAST_SECONDS = 15.0
_CHUNKED = r"chunked prefill|chunked pf|prefill chunk(ing|ed)?$"
_IDLE = 0.05
"""Of a device's time: it computes nothing, no prompt either."""


def may_be_prefill(now: Activity) -> bool:
    """Whether something speaks for it: prompts are in one piece, or a long one is known. False
    where nothing is computed."""
    if _is_at_rest(now):
        return False
    longest = longest_prompt(now.window)
    return bool(is_in_one_piece(now)) or (longest is not None and longest.value >= _LONG_TOKENS)


def is_in_one_piece(now: Activity) -> bool | None:
    """Whether nothing is told of a prompt before its end; None where nobody knows."""
    engine = now.window.engine
    if engine is not None and engine.name in _COUNTED_AT_END:
        return True
    chunked = told(now.window, _CHUNKED)
    if chunked is None:
        return None
    if says_no(chunked) or re.fullmatch(r"-1|unset", chunked.raw.strip()):
        return True
    return False if says_yes(chunked) or chunked.value else None


def longest_prefill(now: Activity) -> float:
    """Seconds for which all may stand though it is one prompt that is computed; 0 where it is none
    for sure."""
    if _is_at_rest(now) or _shows_that_none_is_read(now):
        return 0.0
    longest = longest_prompt(now.window)
    of_length = _PROMPT_SECONDS if longest is None else longest.value / _SLOWEST
    in_one_piece = is_in_one_piece(now)
    if in_one_piece is False and now.kv is not None:
        return min(of_length, _CHUNK_SECONDS)
    is_long = longest is not None and longest.value >= _LONG_TOKENS
    return min(of_length, _PROMPT_SECONDS if in_one_piece or is_long else ONE_PIECE_SECONDS)


def slow_steps(now: Activity) -> Series | None:
    """Steps that end, each later than a token does on most devices, while no token and no prompt is
    counted: batches of a prompt, as it seems, at an engine that counts both when they are done."""
    engine, steps = now.window.engine, now.window.find(Signal.STEPS)
    if engine is None or engine.name not in _COUNTED_AT_END or steps is None:
        return None
    counted = (now.window.find(each) for each in (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS))
    if any(each is None or each.increase != 0 for each in counted):
        return None
    rate = steps.per_second
    return steps if rate and rate <= _SLOW_STEPS and steps.span_seconds >= _LEAST_SECONDS else None


def _is_at_rest(now: Activity) -> bool:
    """The device computes nothing, or no batch of a prompt ends in a time that is enough for it."""
    busy = told_all(now.window, r"\b(gpu|device|npu|sm|cpu)\b.*\b(util\w*|busy)\b")
    if busy:
        share = share_of(busy[-1])
        shares = numbers_in(busy[-1].raw) if share is None else (share,)
        if shares and max(shares) <= _IDLE:
            return True
    engine, steps = now.window.engine, now.window.find(Signal.STEPS)
    if engine is None or engine.name not in _COUNTED_AT_END or steps is None:
        return False
    return steps.is_constant and steps.span_seconds >= _FEWEST_STEPS_SECONDS


def _shows_that_none_is_read(now: Activity) -> bool:
    """What is read would run, or hold blocks, or be in flight beside those that wait."""
    engine = now.window.engine
    if now.running is None or now.running.last.value > 0:
        return False
    if _all_wait(now):
        return True
    if engine is None or engine.name not in _RUNS_WHILE_READ:
        return False
    if now.kv is None:
        return engine.name in _COUNTED_AT_END
    capacity = now.room_of_one
    held = now.kv.last.value
    return held == 0 or (capacity is not None and held * capacity <= _FEW_TOKENS)


def _all_wait(now: Activity) -> bool:
    """Whoever is in flight is in the queue: nobody is left whose prompt is read."""
    if now.in_flight is None or now.waiting is None:
        return False
    return now.in_flight.last.value == now.waiting.last.value

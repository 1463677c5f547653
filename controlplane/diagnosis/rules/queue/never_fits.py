"""The request at the head of the queue is larger than the KV cache will ever be."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.queue.context_limit import max_model_len
from controlplane.diagnosis.rules.queue.stuck import Stuck, stuck_of
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.places import each_place, with_places
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.prompts import longest_prompt
from controlplane.diagnosis.views.told import says_no, told, told_number, value_of
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.limits import BLOCK_SIZE
from dataplane.engine_metrics.signal import Signal

_FEWEST = 3
_ALONE = 1.0
_SIZED = r"# ?(GPU|CUDA|HPU|NPU) blocks:|Maximum concurrency for|KV cache (memory|is allocated)"
_LONGEST_LINE = 200
_SAID = (
    r"(exceeds|larger than|too (long|large|big) for|does not fit|cannot fit|can't fit|never fit).*"
    r"(capacity of (the )?block.?manager|kv.?cache|token pool|kv pool|memory pool)"
)
"""Engines that notice it say that a request is more than their pool."""


def judge(window: Window) -> Verdict | None:
    """CERTAIN where the head is known to be longer than the whole cache, of one replica or rank if
    there are several."""
    whole = _judge(window)
    return with_places(whole, each_place(window), _judge_place)


def _judge_place(part: Window) -> Verdict | None:
    """What is only a hint of one place is none."""
    verdict = _judge(part)
    return None if verdict is None or verdict.confidence < Confidence.LIKELY else verdict


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    stuck = stuck_of(now)
    said = _said(window)
    alone = _thrown_out_alone(now)
    if alone is not None:
        return alone
    if stuck is None and not said:
        return None
    if stuck is not None and (stuck.denial is not None or stuck.moves):
        return None
    argument = Argument(window)
    longest, capacity = longest_prompt(window), now.room_of_one
    if said:
        argument.says(said[-1].strip())
    is_too_long = _compare(argument, now, longest, capacity)
    _cite(argument, now, stuck)
    if is_too_long or (said and stuck is None):
        return argument.verdict(Confidence.CERTAIN)
    if said or _exceeds_the_budget(argument, window, longest):
        return argument.verdict(Confidence.LIKELY)
    if longest is not None and capacity is not None:
        return None
    return _may_be(argument, now, stuck, longest, capacity)


def _said(window: Window) -> tuple[str, ...]:
    """An engine that refuses to start for want of a cache has no queue: that is `oom.profile`."""
    refusals = {event.line for event in window.events_of(LogKind.KV_CACHE_TOO_SMALL)}
    return tuple(
        line
        for line in window.lines_with(_SAID)
        if line not in refusals and not re.search(_OF_A_LIMIT, line, re.IGNORECASE)
    )


_OF_A_LIMIT = r"max_?(model|seq|context|position)\w*_?len|will be (refused|rejected|truncated)"
"""A warning at the start that the limit lets in more than fits is of no request."""


def _thrown_out_alone(now: Activity) -> Verdict | None:
    """The only request there is gets thrown out again and again, and writes nothing more."""
    thrown, tokens = preempting(now), now.window.find(Signal.GENERATION_TOKENS)
    if thrown is None or thrown.series is None or thrown.count < _FEWEST or tokens is None:
        return None
    here = (series.last.value for series in (now.running, now.waiting) if series is not None)
    inside = sum(here) if now.in_flight is None else now.in_flight.max
    if inside > _ALONE or tokens.increase != 0:
        return None
    argument = Argument(now.window)
    argument.series(thrown.series, "one request, thrown out again and again")
    argument.series(tokens, "and not one token more")
    argument.series(now.in_flight)
    argument.series(now.kv)
    is_too_long = _compare(argument, now, longest_prompt(now.window), now.room_of_one)
    argument.against("cache.thrash: nobody else wants room")
    return argument.verdict(Confidence.CERTAIN if is_too_long else Confidence.LIKELY)


def _compare(
    argument: Argument, now: Activity, longest: Figure | None, capacity: float | None
) -> bool:
    if longest is None or capacity is None:
        return False
    output = value_of(
        now.window, r"(^|\b(head|request|first|them) )max (new |output |completion )?tokens$"
    )
    if longest.value > capacity:
        _cite_length(argument, longest, f"more than the {number(capacity)} tokens of the KV cache")
    elif output is not None and longest.value + output > capacity:
        _cite_length(
            argument,
            longest,
            f"with max_tokens {number(output)} more than the {number(capacity)} tokens of the "
            "KV cache",
        )
    elif longest.value + (_block(now.window) or 0.0) > capacity:
        _cite_length(
            argument, longest, f"with one more block above the {number(capacity)} of the KV cache"
        )
    else:
        return False
    limit = max_model_len(now.window)
    if limit is not None and limit > capacity:
        argument.says(f"max model len {number(limit)} lets it in")
    _cite_size(argument, now.window)
    return True


def _cite_size(argument: Argument, window: Window) -> None:
    """How large the cache is, as the engine counts it."""
    for signal in (Signal.KV_BLOCKS, Signal.KV_BLOCK_SIZE):
        argument.series(window.find(signal))
    for line in window.lines_with(_SIZED)[-2:]:
        argument.says(" ".join(line.split())[:_LONGEST_LINE])


def _block(window: Window) -> float | None:
    """Its tokens: an engine wants room for at least one more."""
    series = window.find(Signal.KV_BLOCK_SIZE)
    return value_of(window, BLOCK_SIZE) if series is None else series.last.value


def _cite_length(argument: Argument, longest: Figure, why: str) -> None:
    if longest.fact is not None:
        argument.fact(longest.fact, why)
    else:
        argument.says(f"{longest.says}: {why}")


def _exceeds_the_budget(argument: Argument, window: Window, longest: Figure | None) -> bool:
    """A prompt that is longer than a step's budget, and is not allowed to be cut into chunks."""
    chunks = told(window, r"chunked prefill", without=r"size")
    budget = told_number(window, r"max (num )?batched tokens|max prefill tokens|prefill budget")
    if longest is None or budget is None or budget.value is None or not says_no(chunks):
        return False
    if longest.value <= budget.value:
        return False
    _cite_length(argument, longest, f"more than a step takes ({budget.key} {budget.raw})")
    argument.fact(chunks, "it cannot be cut")
    return True


def _cite(argument: Argument, now: Activity, stuck: Stuck | None) -> None:
    if stuck is None:
        return
    argument.series(stuck.running, "nothing runs")
    argument.series(stuck.waiting, "all wait behind it")
    argument.series(now.kv)
    argument.series(now.decode)
    if stuck.truth is not None:
        argument.says(stuck.truth.says)
    argument.against("queue.blocked: the length of the head explains it")


def _may_be(
    argument: Argument,
    now: Activity,
    stuck: Stuck | None,
    longest: Figure | None,
    capacity: float | None,
) -> Verdict | None:
    limit = max_model_len(now.window)
    if stuck is None or not stuck.is_lasting or (limit and capacity and limit <= capacity):
        return None
    if longest is not None and capacity is None:
        argument.says(longest.says)
        argument.need("size of the KV cache in tokens")
        return argument.verdict(Confidence.POSSIBLE)
    if capacity is None or limit is None:
        argument.need("prompt length of the request at the head", "size of the KV cache in tokens")
        return argument.verdict(Confidence.POSSIBLE)
    argument.says(
        f"max model len {number(limit)} lets in more than the {number(capacity)} tokens of the "
        "KV cache"
    )
    argument.need("prompt length of the request at the head", "its max_tokens")
    return argument.verdict(Confidence.POSSIBLE)


NEVER_FITS = Rule(
    id="queue-never-fits",
    mechanism=Mechanism.QUEUE_NEVER_FITS,
    judge=judge,
    needs=(
        "prompt length of the request at the head",
        "size of the KV cache in tokens",
        "requests running and waiting over time",
    ),
    told_apart="From a blocked scheduler by the head's length against the whole cache, from "
    "overload by nothing running.",
    remedy="Refuse it at admission, or set the longest context to what the cache holds.",
    hides="A restart lets the queue go, and the next such request brings it back; a larger cache "
    "only moves the limit.",
    explains=frozenset({Mechanism.QUEUE_BLOCKED, Mechanism.QUEUE_OVERLOAD, Mechanism.ROUTING_SKEW}),
)

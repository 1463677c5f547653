"""How fast requests decode beside prefill, by whoever measured it with and without."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.pace.collapse import LONG_PROMPT, prefill_of_batches
from controlplane.diagnosis.rules.pace.prefill_chunk import cite_chunk, weigh
from controlplane.diagnosis.rules.pace.token_tail import is_mostly_prefill
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import FULL, Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.prompts import longest_prompt
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import (
    number_of,
    share_of,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import BETWEEN_TOKENS
from controlplane.diagnosis.words.shares import SHARE
from dataplane.engine_metrics.signal import Signal, Unit

_SLOWER = 2.5
_WITHOUT = r"without( new| any)? (prefills?|prompts?|arrivals)"
_PURE = (
    rf"(pure|only|floor|ideal|alone|{_WITHOUT})\b.*\b(decode|step)"
    rf"|(decode|step)\b.*\b(floor|alone|only|pure)|\b(decode|step|itl|tpot|token)\b.*{_WITHOUT}"
)
_ASKED = r"(?=.*\b(prompts?|input)\b)(?=.*\b(tokens|len|length|isl)\b)"
_WRITTEN = r"(?=.*\b(outputs?|answers?|completions?)\b)(?=.*\b(tokens|len|length|osl)\b)"
_NOT_EACH = (
    r"\b(longest|max|min|total|limit|cached|computed|per|rate|share|budget|last|left|chunk"
    r"|system)\b"
)
_STEPS_WITH_PREFILL = (
    r"(?=.*\b(prefills?|mixed)\b)(?=.*\b(steps?|batches|iterations|passes)\b)"
    rf"(?=.*\b({SHARE})\b)"
)
_OFTEN = 0.3
"""Of the steps: where fewer carry prefill, most tokens come at the pace of those without."""
_STARVED = 1.0
"""Tokens a second for each that runs."""
_MUCH_MORE = 20.0
"""Times the decoded tokens, where steps take turns between prefill and decode."""
_FEW_WAIT = 0.1
"""Of the batch; with more in the queue it is the queue that people feel."""
_WHILE_PREFILL = (
    r"\b(during|with|while|beside|under|mixed|after|others?|are|is|being|read|reading|come|coming"
    r"|in)\b|prefills?|long( |$)|prompts?|documents?|ingest\w*"
)
_OF_PREFILL = r"ttft|prefill (tok|rate|per)|prompt (tok|per)"
_BY_PREFILL = r"prefill|prompt|long|document|ingest"
_ALONE = r"\b(alone|without|no|idle|before|baseline|quiet|normal|usual|unloaded|only|decode only)\b"


def slower_beside_prefill(argument: Argument, window: Window) -> bool:
    """Slower beside prefill than without it, in figures of somebody who measured both."""
    longest = longest_prompt(window)
    is_prefilling = longest is not None and longest.value >= LONG_PROMPT
    pattern = r"(?=.*\b(itl|tpot|inter token|decode|generation|gen|tok\w*|stream|stall|tps|wall)\b)"
    found = False
    for slow in slowdowns(window, base=_ALONE, other=_WHILE_PREFILL, pattern=pattern):
        if slow.factor < _SLOWER or re.search(_OF_PREFILL, slow.contrast.keys):
            continue
        if is_prefilling or re.search(_BY_PREFILL, slow.contrast.other.key):
            argument.says(slow.says)
            found = True
    if found and longest is not None:
        argument.says(longest.says)
    for fact in told_all(window, r"prefill (steps|batches|burst|chunks)|chunks? (tokens|size)"):
        if found:
            argument.fact(fact)
    return found


def above_pure_decode(argument: Argument, now: Activity) -> bool:
    """A token takes many times a step that decodes alone, most of the work is prefill, and nothing
    waits."""
    window = now.window
    pure = told_number(window, _PURE, without=r"per s|tokens")
    actual = told_number(window, BETWEEN_TOKENS, without=_PURE)
    floor, seconds = number_of(pure), number_of(actual)
    if pure is None or actual is None or not floor or not seconds or seconds < _SLOWER * floor:
        return False
    if not _is_mostly_beside_prefill(argument, now) or _queue_is_felt(now) or now.is_full:
        return False
    argument.fact(pure)
    argument.fact(actual)
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.kv)
    weigh(argument, now)
    return True


def _is_mostly_beside_prefill(argument: Argument, now: Activity) -> bool:
    """Steps carry it, or each request brings much more than it takes away."""
    share = told_number(now.window, _STEPS_WITH_PREFILL)
    if (share_of(share) or 0.0) >= _OFTEN:
        argument.fact(share)
        return True
    into, out = _of_each(now.window, _ASKED), _of_each(now.window, _WRITTEN)
    asked, written = number_of(into), number_of(out)
    if asked and written and asked >= 2 * written:
        argument.fact(into)
        argument.fact(out)
        return True
    return is_mostly_prefill(argument, now)


def _of_each(window: Window, pattern: str) -> Fact | None:
    """As many as a usual request has."""
    found = [
        fact
        for fact in told_all(window, pattern, without=_NOT_EACH)
        if fact.unit in (None, Unit.TOKENS) and (fact.quantile or 0.5) <= 0.5 and number_of(fact)
    ]
    return found[-1] if found else None


def _queue_is_felt(now: Activity) -> bool:
    waits = 0.0 if now.backlog is None else now.backlog.last.value
    return waits > _FEW_WAIT * (0.0 if now.running is None else now.running.last.value)


def starving(argument: Argument, now: Activity) -> Verdict | None:
    """All that runs together gets next to no tokens while prompts go through."""
    decode, running = now.decode, now.running
    prefill = now.prefill or prefill_of_batches(now)
    if decode is None or running is None or prefill is None:
        return None
    if now.kv is None and not _has_slots(now):
        return None
    streams = late(running)
    waits = 0.0 if now.waiting is None else now.waiting.last.value
    is_full = now.kv is not None and now.kv.max >= FULL
    if streams < 2 or is_full or waits > _FEW_WAIT * streams:
        return None
    if late(decode) > _STARVED * streams or late(prefill) < _MUCH_MORE * max(late(decode), 1.0):
        return None
    if late(decode) <= 0 or _answers_are_short(now):
        return None
    argument.series(
        decode,
        f"{number(streams)} streams share it, one token in {streams / late(decode):.2g} s each",
    )
    argument.series(prefill, "prompts go through meanwhile")
    argument.series(now.window.find(Signal.PROMPT_RATE))
    argument.series(running)
    argument.series(now.kv)
    argument.series(now.waiting)
    for fact in told_all(now.window, r"prefill|decode|gap|between tokens|\bitl\b|\btpot\b"):
        argument.fact(fact)
    cite_chunk(argument, now)
    weigh(argument, now)
    argument.against("delivery.slow_client: the tokens are not made")
    return argument.verdict(Confidence.LIKELY)


def _has_slots(now: Activity) -> bool:
    """Each request has a context of its own, from which nobody throws it out."""
    engine = now.window.engine
    return engine is not None and engine.name == "llama.cpp" and now.waiting is not None


def _answers_are_short(now: Activity) -> bool:
    """A token or a few for each answer: then that is all that there is to write."""
    made, ended = now.window.find(Signal.GENERATION_TOKENS), now.finished
    tokens = None if made is None else made.increase
    answers = None if ended is None else ended.increase
    if answers is None:
        answers = _prompts_read(now)
    return bool(tokens and answers and tokens < _FEW_TOKENS * answers)


def _prompts_read(now: Activity) -> float | None:
    """How many, where somebody told how long they are."""
    read, length = now.window.find(Signal.PROMPT_TOKENS), longest_prompt(now.window)
    tokens = None if read is None else read.increase
    return tokens / length.value if tokens and length is not None and length.value else None


_FEW_TOKENS = 8.0
"""Classifiers and scorers write one; a chat writes dozens."""

"""How fast requests decode beside prefill, by whoever measured it with and without."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.collapse import LONG_PROMPT, prefill_of_batches
from controlplane.diagnosis.rules.pace.prefill_chunk import cite_chunk, weigh
from controlplane.diagnosis.rules.pace.token_tail import is_mostly_prefill
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import FULL, Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.prompts import longest_prompt
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import BETWEEN_TOKENS
from dataplane.engine_metrics.signal import Signal

_SLOWER = 2.5
_PURE = (
    r"(pure|only|floor|ideal|alone)\b.*\b(decode|step)|(decode|step)\b.*\b(floor|alone|only"
    r"|pure)"
)
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
    into = told_number(window, r"prompt tokens (each|mean|p50)|input tokens (each|mean|p50)")
    out = told_number(window, r"(output|answer|completion) tokens (each|mean|p50)")
    asked, written = number_of(into), number_of(out)
    is_mostly = bool(asked and written and asked >= 2 * written) or is_mostly_prefill(argument, now)
    if not is_mostly or (now.backlog is not None and now.backlog.last.value > 0) or now.is_full:
        return False
    argument.fact(pure)
    argument.fact(actual)
    argument.fact(into)
    argument.fact(out)
    weigh(argument, now)
    return True


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

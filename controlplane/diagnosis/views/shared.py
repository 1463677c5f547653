"""What prompts are known to have in common, by whoever compared them."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.figure import Figure, figure_of
from controlplane.diagnosis.views.told import (
    number_of,
    numbers_in,
    plain,
    share_of,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.limits import BLOCK_SIZE
from dataplane.engine_metrics.signal import Signal, Unit

_COMMON = (
    r"(?=.*\b(shared?|common|same|identical|overlap\w*|repeat(s|ed)?|unchanged|equal|byte"
    r"|lcp|lcs)\b)(?=.*\b(prefix|prompts?|turns?|history|context|system|tokens|head|start"
    r"|beginning)\b)"
)
_NOT_COMMON = (
    r"\b(hits?|cached|rate|found|reused|block|computed|ttft|latency|load|card|gpu|flags|per s"
    r"|adapter|model|tenant|callers?|clients?|minute|second|hour)\b"
)
_REPEATED = (
    r"byte[- ](for|by)[- ]byte|byte[- ]identical|(sent|asked|run|replayed) (twice|again|\d+ times)"
    r"|same (prompts?|requests?|bodies|documents?) (again|twice|\d+ times|in turn)"
)
_DIFFERS = (
    r"first (token )?(that )?(difference|mismatch|differ\w*|divergen\w*)"
    r"|(differs?|diverges?) (at|from)|tokens before (the|it|them)\b|tokens in common"
)
_BLOCK_LINE = r"(?:block|page)[_ ]size\W{1,3}(?:to |of |is )?(\d+)"
_COUNTED = re.compile(r"(\d[\d,]*) ?x ?(\d[\d,]*) tokens")
UNIQUE = (
    r"\b(unique|random|differs?|different|uuids?|nonce|dates?|time ?stamps?|clock|salt|hash"
    r"|every request|per request|each request|every turn|distinct|changes|billing|session id"
    r"|request id|counter|time of day|(current|local|wall|system) time|now|to the (second|minute)"
    r")\b"
)
"""What says that something is written anew each time."""
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?|\b[0-9a-f]{5,}\b|\d{4}-\d{2}-\d{2}"
_ABOUT = (
    r"prompt|prefix|template|request|salt|shared|begin|first (line|tokens|block)|header|system"
    r"|image|content|order"
)
_FITS = 0.05
_FEWEST_TOKENS = 16.0
_SOME_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Of prompts that ask one cache."""

    share: float
    """Of a prompt, 0 to 1, that was sent before."""
    tokens: float | None
    prompt_tokens: float | None
    is_below_a_block: bool
    is_counted: bool
    """What was computed before the window is a first round of all of them, by its tokens."""
    says: tuple[str, ...]
    facts: tuple[Fact, ...]


def shared_by_prompts(window: Window) -> Shared | None:
    """None where nobody compared them, or where they have little in common."""
    repeated = _repeated(window)
    if repeated is not None or differences(window):
        return repeated
    facts = [
        fact
        for fact in told_all(window, _COMMON, without=_NOT_COMMON)
        if fact.value is not None and fact.unit in (Unit.TOKENS, Unit.RATIO, None)
    ]
    if not facts:
        return None
    newest = facts[-1]
    value, prompt = number_of(newest) or 0.0, _prompt_tokens(window)
    is_share = newest.unit is Unit.RATIO or value <= 1.0
    tokens = None if is_share else value
    share = share_of(newest) if is_share else value / max(prompt, value) if prompt else None
    if is_share and share is None:
        return None
    if share is not None and share < _SOME_SHARE:
        return None
    if tokens is not None and tokens < _FEWEST_TOKENS:
        return None
    block = block_of(window)
    return Shared(
        share=_OF_ANY if share is None else min(share, 1.0),
        tokens=tokens,
        prompt_tokens=prompt,
        is_below_a_block=bool(tokens is not None and block is not None and tokens < block.value),
        is_counted=False,
        says=tuple(says(fact) for fact in facts[-3:]),
        facts=tuple(facts),
    )


def differs_at(window: Window) -> Fact | None:
    """The token at which prompts begin to differ."""
    found = [fact for fact in told_all(window, _DIFFERS) if fact.value is not None]
    return found[-1] if found else None


def differences(window: Window) -> tuple[Fact, ...]:
    """What says that prompts begin differently, by words or by two clocks in one text."""
    found = []
    for fact in window.facts:
        if fact.value is not None and not re.search(_ABOUT, plain(fact.key)):
            continue
        text = f"{plain(fact.key)} {fact.raw.replace('_', ' ').lower()}"
        if re.search(UNIQUE, text) or len(set(re.findall(_CLOCK, text))) > 1:
            found.append(fact)
    return tuple(found)


def block_of(window: Window) -> Figure | None:
    """Of the prefix cache: exported, told, or as an engine says when it starts. Where the steps in
    which prefixes are looked up are told apart from a block of the pool, it is those."""
    step, block = _lookup_step(window), _block_of_pool(window)
    return block if step is None or not _goes_with(step, block) else step


def _lookup_step(window: Window) -> Figure | None:
    """Engines with several kinds of layers look prefixes up in a common multiple of their blocks,
    and export the block of one of them."""
    found = [
        fact
        for fact in told_all(window, _STEP, without=_NO_STEP)
        if number_of(fact) and fact.unit in (Unit.TOKENS, None)
    ]
    return figure_of(found[-1], number_of(found[-1])) if found else None


def _goes_with(step: Figure, block: Figure | None) -> bool:
    """A step of lookups is a multiple of the blocks that it is common to, or a part of one."""
    if block is None or min(step.value, block.value) <= 0:
        return True
    return max(step.value, block.value) % min(step.value, block.value) == 0


_STEP = (
    r"\b(scheduler|scheduling|hash(ing)?|effective|aligned|alignment|lcm|logical|unified|virtual"
    r"|hybrid|mamba|attention|match(ing)?|prefix( cache)?|cache hit|hits?)\b.*"
    r"\b(block|page|alignment|granularity)( (size|tokens|length))?\b"
    r"|\b(block|page) size\b.*\b(effective|aligned|scheduler|hash|hits?|prefix)\b"
    r"|\b(hits?|prefix\w*|cache)\b.*\b(granularity|alignment)\b"
)
_NO_STEP = r"\b(chunk\w*|steps?)\b"
"""Chunks are of a prefill or of an attention's window, steps of a scheduler: none is of a cache."""


def _block_of_pool(window: Window) -> Figure | None:
    series = window.find(Signal.KV_BLOCK_SIZE)
    if series is not None:
        return Figure(series.last.value, f"block_size {series.last.raw}")
    fact = told_number(window, rf"{BLOCK_SIZE}|block tokens|tokens per (block|page)")
    if fact is not None:
        return figure_of(fact, number_of(fact))
    for line in window.lines_with(_BLOCK_LINE):
        said = re.search(_BLOCK_LINE, line, re.IGNORECASE)
        if said is not None:
            return Figure(float(said[1]), f"block size {said[1]}")
    return None


def _prompt_tokens(window: Window) -> float | None:
    found = [
        fact.value
        for fact in told_all(
            window, r"^(prompt|input|context)( tokens| len\w*)( mean| each| p50)?$|prompt tokens$"
        )
        if fact.value is not None and fact.value > _FEWEST_TOKENS
    ]
    return found[-1] if found else None


def _repeated(window: Window) -> Shared | None:
    """`5 x 16011 tokens, each sent twice, byte for byte`."""
    for fact in window.facts:
        text = fact.raw.lower()
        if fact.value is not None or not re.search(_REPEATED, text):
            continue
        if not re.search(
            r"prompt|request|prefix|document|input|body|turn", f"{plain(fact.key)} {text}"
        ):
            continue
        counted = _COUNTED.search(text)
        sizes = numbers_in(f"{counted[1]} {counted[2]}") if counted else ()
        first_round = sizes[0] * sizes[1] if len(sizes) == 2 else None
        sentences = [says(fact)]
        is_counted = first_round is not None and _was_computed(window, first_round)
        if is_counted and first_round is not None and counted is not None:
            sentences.append(f"{counted[1]} x {counted[2]} = {number(first_round)} computed before")
        return Shared(
            share=1.0 if is_counted else _ONE_OF_TWO,
            tokens=sizes[1] if len(sizes) == 2 else None,
            prompt_tokens=sizes[1] if len(sizes) == 2 else None,
            is_below_a_block=False,
            is_counted=is_counted,
            says=tuple(sentences),
            facts=(),
        )
    return None


_ONE_OF_TWO = 0.5
_OF_ANY = 0.05
"""Where nobody says how long prompts are: a part of the longest ones, and not of none."""


def _was_computed(window: Window, tokens: float) -> bool:
    """All of them, once, before the first reading."""
    for signal in (Signal.COMPUTED_PROMPT_TOKENS, Signal.PREFIX_QUERIES, Signal.PROMPT_TOKENS):
        series = window.find(signal)
        if series is not None and abs(series.first.value - tokens) <= _FITS * tokens:
            return True
    return False

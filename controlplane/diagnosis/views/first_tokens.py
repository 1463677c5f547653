"""How long prompts are, and when their first tokens came: of one request each, as it was told."""

from collections.abc import Iterator

from controlplane.diagnosis.citing import seconds
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.contrast import Contrast
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN
from dataplane.engine_metrics.signal import Unit

Read = tuple[float, float, str]
"""Tokens, seconds, and in words."""
LEAST_READ = 512
"""Tokens: of a shorter prompt the first token takes what it takes."""
_AS_LONG = 1.7
"""Times what the length alone makes of it: attention over a long prompt costs more."""


def read_as_told(window: Window) -> Iterator[Read]:
    """Of one request each: how long its prompt is, and when its first token came."""
    lengths = told_all(window, _LENGTH, without=_NOT_ONE)
    firsts = told_all(window, FIRST_TOKEN, without=_NOT_FIRST_TOKEN)
    for length in lengths:
        beside = [first for first in firsts if first.at == length.at and _is_of_one(length, first)]
        tokens = number_of(length)
        if len(beside) != 1 or tokens is None or tokens < LEAST_READ:
            continue
        took = number_of(beside[0])
        if took and beside[0].unit is Unit.SECONDS:
            first = f"{beside[0].key} {seconds(took)} s"
            yield tokens, took, f"{length.key} {length.raw}, {first}"


def is_as_long_as_its_prompt(window: Window, contrast: Contrast) -> bool:
    """A first token that came later after a prompt that is longer by about as much."""
    lengths = {
        fact.at: tokens
        for fact in told_all(window, _LENGTH, without=_NOT_ONE)
        if (tokens := number_of(fact)) is not None and tokens >= LEAST_READ
    }
    before, after = lengths.get(contrast.base.at), lengths.get(contrast.other.at)
    is_first = contrast.other in told_all(window, FIRST_TOKEN, without=_NOT_FIRST_TOKEN)
    if not is_first or not before or not after or contrast.base.at == contrast.other.at:
        return False
    return contrast.factor <= _AS_LONG * after / before


def _is_of_one(length: Fact, first: Fact) -> bool:
    """Where several prompts are told of at one time, by the words that both keys share."""
    named = [set(fact.key.lower().replace("-", "_").split("_")) for fact in (length, first)]
    own = [words - _COMMON for words in named]
    return own[0] == own[1]


_COMMON = frozenset(
    [
        "prompt",
        "prompts",
        "input",
        "tokens",
        "token",
        "length",
        "len",
        "num",
        "n",
        "ttft",
        "first",
        "to",
        "time",
        "s",
        "ms",
        "sec",
        "seconds",
    ]
)
_LENGTH = r"\b(prompt|input)( \w+)* (tokens|length|len)\b|\btokens( \w+)* (prompt|input)\b"
_NOT_ONE = r"per s|limit|max|chunk|cache|batch|mean|p\d\d|total|all|throughput|rate"
_NOT_FIRST_TOKEN = r"p9\d|p50|mean|limit|slo|objective|target|before|usual"

"""Each request begins with something of its own, so that what follows is never found."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window

_HASH = r"\b(hash|sha|sha1|sha256|md5|crc\d*|checksum|digest|fingerprint)\b"
_START = re.compile(
    r"\b(first|start|head|header|beginning|begin|preamble|opening|top|leading|(line|block|chunk"
    r"|segment|part) [01])\b"
)
_REST = re.compile(r"\b(rest|remaining|remainder|tail|body|after|following|below|others?|suffix)\b")
_CACHED = (
    r"\b(cached|reused|hit|found)\b.*\btokens\b|\btokens\b.*\b(cached|reused|found)\b|cache n$"
)
_PROMPT = r"\b(prompt|input)\b.*\b(tokens|len|length)\b"
_NOT_PROMPT = r"\b(cached|reused|hit|found|shared|common|system|mean|max|rate|per|computed|new)\b"
_FOUND = 0.02
"""Of a prompt: what stands before the change, and not a prefix that anybody counts on."""
_FEWEST_REQUESTS = 2


def changes_at_start(window: Window) -> Verdict | None:
    """CERTAIN where of each of several requests next to nothing was found, and its beginning was
    seen to be another one each time."""
    starts = _values(window, _START)
    if len(starts) < _FEWEST_REQUESTS or len(set(starts)) < len(starts):
        return None
    asked = _found_of_prompts(window)
    if len(asked) < _FEWEST_REQUESTS or any(_is_found(*pair) for pair in asked):
        return None
    argument = Argument(window)
    for prompt, cached in asked:
        sizes = f"{number(number_of(cached) or 0.0)} of {number(number_of(prompt) or 0.0)}"
        argument.says(f"{sizes} tokens were found")
        argument.fact(cached)
        argument.fact(prompt)
    for fact in _hashes(window, _START):
        argument.fact(fact, "another one each time")
    rest = _values(window, _REST)
    if len(rest) > 1 and len(set(rest)) == 1:
        argument.says(f"what follows is the same each time ({rest[0]})")
    for fact in told_all(window, r"evict|free|usage"):
        argument.fact(fact)
    argument.against("cache.prefix_loss: nothing was ever found that could be lost")
    argument.against("cache.thrash: what is asked for differs, whatever is kept")
    return argument.verdict(
        Confidence.CERTAIN,
        detail="prompts begin differently",
        remedy="Move what changes behind what is shared, or leave it out.",
    )


def _hashes(window: Window, where: re.Pattern[str]) -> list[Fact]:
    """What was told of that part of prompts, with another part named by what stands apart."""
    other = _REST if where is _START else _START
    return [
        fact
        for fact in told_all(window, _HASH)
        if fact.part is None
        and where.search(plain(fact.key))
        and not (where is _START and other.search(plain(fact.key)))
    ]


def _values(window: Window, where: re.Pattern[str]) -> list[str]:
    return [fact.raw.strip().lower() for fact in _hashes(window, where)]


def _found_of_prompts(window: Window) -> list[tuple[Fact, Fact]]:
    """Each request's prompt, and what of it was found; the two were told together."""
    cached = {fact.at: fact for fact in told_all(window, _CACHED) if fact.part is None}
    return [
        (fact, cached[fact.at])
        for fact in told_all(window, _PROMPT, without=_NOT_PROMPT)
        if fact.part is None and fact.at in cached and number_of(fact)
    ]


def _is_found(prompt: Fact, cached: Fact) -> bool:
    return (number_of(cached) or 0.0) > _FOUND * (number_of(prompt) or 0.0)

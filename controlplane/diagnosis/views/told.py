"""What somebody wrote down beside the series, asked for by the words of its key.

Keys are free (`in_flight`, `itlP99Ms`, `prompts that arrived`), so a rule asks with a regular
expression over the key in plain small words: `told(window, r"retr(y|ies)")`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.patterns import compiled
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"(\d(?:\.\d+)?)\s?([kKM])\b(?!\w)")
_FACTORS = {"k": 1e3, "K": 1e3, "M": 1e6}


@lru_cache(maxsize=4096)
def plain(key: str) -> str:
    """`maxNumBatched-tokens` as `max num batched tokens`."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", key)
    return " ".join(re.split(r"[^A-Za-z0-9]+", apart)).lower().strip()


def told_all(window: Window, pattern: str, *, without: str = "") -> tuple[Fact, ...]:
    """Facts whose key matches, in time order. Matches the words of the key, and those that
    `sources.facts` has for them."""
    wanted = compiled(pattern)
    unwanted = compiled(without) if without else None
    return tuple(
        fact
        for fact in window.facts
        if any(wanted.search(text) for text in _texts(fact))
        and not (unwanted and any(unwanted.search(text) for text in _texts(fact)))
    )


def told(window: Window, *patterns: str, without: str = "") -> Fact | None:
    """The newest fact that the first pattern finds, else the second, ..."""
    for pattern in patterns:
        if found := told_all(window, pattern, without=without):
            return found[-1]
    return None


def told_number(window: Window, *patterns: str, without: str = "") -> Fact | None:
    """The newest that is a number."""
    for pattern in patterns:
        numbers = [
            fact
            for fact in told_all(window, pattern, without=without)
            if number_of(fact) is not None
        ]
        if numbers:
            return numbers[-1]
    return None


def number_of(fact: Fact | None) -> float | None:
    """Its value, or the only number in its text, as in `2416 ms`."""
    if fact is None or is_switch(fact):
        return None
    if fact.value is not None:
        return fact.value
    found = numbers_in(fact.raw)
    return found[0] if len(found) == 1 else None


def value_of(window: Window, *patterns: str, without: str = "") -> float | None:
    """The number of such a fact; None where nobody told."""
    return number_of(told_number(window, *patterns, without=without))


def numbers_in(text: str) -> tuple[float, ...]:
    """All numbers in a text, `72k` and `100,000` included: (2, 72000) of `2 x 72000 tokens`."""
    whole = _THOUSANDS.sub(lambda found: str(float(found[1]) * _FACTORS[found[2]]), text)
    return tuple(float(number.replace(",", "")) for number in _NUMBER.findall(whole))


def share_of(fact: Fact | None) -> float | None:
    """A share of a whole, 0 to 1: people write 0.24, 24 and 24 % for it."""
    value = number_of(fact)
    if value is None:
        return None
    return value / 100.0 if value > _PERCENT_FROM else value


_PERCENT_FROM = 1.5
"""A share above one is a percentage; 1.5 leaves room for what is rounded."""


def is_time(fact: Fact) -> bool:
    """Its unit is seconds, or nobody said one."""
    return fact.unit in (Unit.SECONDS, None)


def is_switch(fact: Fact) -> bool:
    """A setting that is on, off or unset, as engines put it on their page beside their sizes."""
    return fact.raw.strip().lower() in _SWITCH


_SWITCH = ("true", "false", "none", "null", "auto", "")


def says_no(fact: Fact | None) -> bool:
    """The text or the number says: off, not there, none."""
    return fact is not None and bool(
        re.fullmatch(r"\s*(no|none|false|off|disabled|never|0|0\.0)\b.*", fact.raw.lower())
    )


def says_yes(fact: Fact | None) -> bool:
    """The text says: on, there."""
    return fact is not None and bool(
        re.match(r"\s*(yes|true|on|enabled|always|all)\b", fact.raw.lower())
    )


def texts_of(window: Window) -> Sequence[str]:
    """All that was told in words: keys with their values, and changes."""
    return [
        *(f"{plain(fact.key)}: {fact.raw}" for fact in window.facts),
        *(change.what for change in window.changes),
    ]


@lru_cache(maxsize=4096)
def _split(key: str, words: frozenset[str]) -> tuple[str, ...]:
    return (plain(key), " ".join(sorted(words)))


def _texts(fact: Fact) -> tuple[str, ...]:
    return _split(fact.key, fact.words)

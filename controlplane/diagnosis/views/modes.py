"""The same run told twice, under two settings: `quantization: none`, then `quantization: awq`.

What differs is told in words under one key at two times, and speeds stand beside each.
"""

import itertools
import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.contrast import Contrast
from controlplane.diagnosis.views.slowdown import NOT_PACE, Slowdown, is_of_time
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window


def between_modes(
    window: Window, base: str, other: str, without: str = "", *, about: str = ""
) -> tuple[list[Slowdown], tuple[Fact, Fact] | None]:
    """How much slower it is where a setting says `other` than where it says `base` (patterns of
    the setting's text), the greatest first, and the setting in both. `about` narrows which setting
    is meant, by its key."""
    for one, two in itertools.combinations(window.facts, 2):
        if one.key != two.key or one.at == two.at or one.raw == two.raw:
            continue
        if about and not re.search(about, plain(one.key)):
            continue
        for first, second in ((one, two), (two, one)):
            if _says(first, base) and not _says(first, other) and _says(second, other):
                return slowdowns_between(window, first.at, second.at, without), (first, second)
    return [], None


def _says(fact: Fact, pattern: str) -> bool:
    text = fact.raw.lower().replace("_", " ").replace("-", " ")
    return fact.value is None and re.search(pattern, text) is not None


def slowdowns_between(
    window: Window, first: float, second: float, without: str = ""
) -> list[Slowdown]:
    """How much slower what was told at `second` is than what was told under the same keys at
    `first`, the greatest first. `without` is a pattern of keys that are not compared."""
    unwanted = f"{NOT_PACE}|{without}" if without else NOT_PACE
    facts = [
        fact for fact in told_all(window, ".", without=unwanted) if is_of_time(fact) is not None
    ]
    found = []
    for base in facts:
        for other in facts:
            if base.key != other.key or base.at != first or other.at != second:
                continue
            before, after = number_of(base), number_of(other)
            if not before or not after or before < 0 or after < 0:
                continue
            is_time = bool(is_of_time(base))
            factor = after / before if is_time else before / after
            contrast = Contrast(base=base, other=other, base_value=before, value=after)
            found.append(Slowdown(contrast, factor, is_time))
    return sorted(found, key=lambda slow: -slow.factor)


def keys_of(facts: tuple[Fact, Fact] | None) -> str:
    """Both as they were told."""
    if facts is None:
        return ""
    return f"{plain(facts[0].key)} {facts[0].raw} -> {facts[1].raw}"

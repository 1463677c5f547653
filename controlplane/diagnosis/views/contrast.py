"""The same thing told twice: before and after, with and without, here and there.

People write `ttft_p50_before_s: 0.4` beside `ttft_p50_now_s: 1.9`, `tps_bf16` beside `tps_fp8`, or
one key at two times. Which of two is the base is told by words, else by time.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all
from controlplane.diagnosis.window import Window

BASE = (
    r"\b(before|baseline|base|normal|usual|usually|old|previous|prior|earlier|without|no|alone|idle"
    r"|off|disabled|unloaded|quiet|reference|expected|yesterday|last week|plain|vanilla|first|start"
    r"|initial|was|good|healthy)\b"
)
OTHER = (
    r"\b(after|now|new|current|currently|today|since|with|on|enabled|during|under|loaded|busy|mixed"
    r"|later|end|latest|last|observed|actual|is|bad)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two readings of one thing."""

    base: Fact
    other: Fact
    base_value: float
    value: float

    @property
    def says(self) -> str:
        """Both as they were written."""
        if self.base.key == self.other.key:
            return f"{self.base.key} {self.base.raw} -> {self.other.raw}"
        return f"{self.base.key} {self.base.raw}, {self.other.key} {self.other.raw}"

    @property
    def factor(self) -> float:
        """The other over the base; infinite over zero."""
        return self.value / self.base_value if self.base_value else float("inf")


def contrasts(
    window: Window,
    pattern: str,
    *,
    base: str = BASE,
    other: str = OTHER,
    is_share: bool = False,
    without: str = "",
) -> list[Contrast]:
    """Pairs of facts that match `pattern`, are about the same otherwise, and of which one is the
    base. `base` and `other` are patterns of words that tell which is which."""
    read = share_of if is_share else number_of
    facts = [fact for fact in told_all(window, pattern, without=without) if read(fact) is not None]
    pairs = (
        (one, two) if _is_base(one, two, base, other) else (two, one)
        for one, two in itertools.combinations(facts, 2)
        if _is_same(one, two, base, other)
    )
    found = []
    for first, second in pairs:
        before, after = read(first), read(second)
        if before is not None and after is not None:
            found.append(Contrast(base=first, other=second, base_value=before, value=after))
    return found


def _is_same(one: Fact, two: Fact, base: str, other: str) -> bool:
    if one.key == two.key:
        return one.at != two.at
    if one.unit is not two.unit or one.quantile != two.quantile:
        return False
    return _without(one, base, other) == _without(two, base, other) and bool(
        set(_marks(one, base, other)) ^ set(_marks(two, base, other))
    )


def _is_base(one: Fact, two: Fact, base: str, other: str) -> bool:
    """Whether the first of them is what the second is held against."""
    if one.key == two.key:
        return one.at <= two.at
    texts = plain(one.key), plain(two.key)
    is_base = [bool(re.search(base, text)) for text in texts]
    if is_base[0] != is_base[1]:
        return is_base[0]
    is_other = [bool(re.search(other, text)) for text in texts]
    if is_other[0] != is_other[1]:
        return is_other[1]
    return one.at <= two.at


def _marks(fact: Fact, base: str, other: str) -> Iterator[str]:
    for pattern in (base, other):
        for found in re.finditer(pattern, plain(fact.key)):
            yield found[0]


def _without(fact: Fact, base: str, other: str) -> str:
    text = re.sub(other, " ", re.sub(base, " ", plain(fact.key)))
    text = re.sub(r"\b(the|a|of|in|at|s|ms|version|upgrade|change|restart|deploy)\b", " ", text)
    return " ".join(sorted(text.split()))

"""The same thing told twice: before and after, with and without, here and there.

People write `ttft_p50_before_s: 0.4` beside `ttft_p50_now_s: 1.9`, `tps_bf16` beside `tps_fp8`, one
key at two times, or a key and the same key with a circumstance (`ttft_ms`, `ttft_ms_one_frontend`).
Which of two is the base is told by words, else by time or by the circumstance.
"""

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all
from controlplane.diagnosis.window import Window

BASE = (
    r"\b(before|baseline|base|normal|usual|usually|old|previous|prior|earlier|without|no|alone|idle"
    r"|off|disabled|unloaded|quiet|reference|expected|yesterday|last week|plain|vanilla|first|start"
    r"|initial|was|good|healthy|direct|straight|other|another|fresh)\b"
)
OTHER = (
    r"\b(after|now|new|current|currently|today|since|with|on|enabled|during|under|loaded|busy|mixed"
    r"|while|beside|later|end|latest|last|observed|actual|is|bad|here|this)\b"
)
_FILLERS = (
    r"\b(the|a|an|of|in|at|to|for|same|load|version|upgrade|change|restart|deploy|mean|avg|host"
    r"|machine|gpu|card|config|setup|run|model|case|s|ms)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two readings of one thing."""

    base: Fact
    other: Fact
    base_value: float
    value: float
    circumstance: str = ""
    """The words that only one of the keys has."""

    @property
    def says(self) -> str:
        """Both as they were written."""
        if self.base.key == self.other.key:
            return f"{self.base.key} {self.base.raw} -> {self.other.raw}"
        return f"{self.base.key} {self.base.raw}, {self.other.key} {self.other.raw}"

    @property
    def keys(self) -> str:
        """Both keys in plain words."""
        return f"{plain(self.base.key)} {plain(self.other.key)}"

    @property
    def factor(self) -> float:
        """The other over the base; infinite over zero."""
        return self.value / self.base_value if self.base_value else float("inf")


MOST_FACTS = 120
"""Each is held against each; people tell a dozen, and what is longer is a list of settings."""


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
    found = []
    for one, two in itertools.combinations(facts[-MOST_FACTS:], 2):
        circumstance = _circumstance(one, two, base, other)
        if circumstance is None:
            continue
        first, second = (one, two) if _is_base(one, two, base, other) else (two, one)
        before, after = read(first), read(second)
        if before is not None and after is not None:
            found.append(
                Contrast(
                    base=first,
                    other=second,
                    base_value=before,
                    value=after,
                    circumstance=circumstance,
                )
            )
    return found


def _circumstance(one: Fact, two: Fact, base: str, other: str) -> str | None:
    """None where the two are not about the same thing."""
    if one.key == two.key:
        return "" if one.at != two.at else None
    if one.unit is not two.unit or one.load != two.load or one.over_seconds != two.over_seconds:
        return None
    if one.quantile != two.quantile and {one.quantile, two.quantile} != {None, 0.5}:
        return None
    words = plain(one.key).split(), plain(two.key).split()
    only = [word for word in words[0] if word not in words[1]]
    only += [word for word in words[1] if word not in words[0]]
    if not only:
        return None
    is_extended = set(words[0]) < set(words[1]) or set(words[1]) < set(words[0])
    if is_extended and len(min(words, key=len)) > 1:
        return " ".join(only)
    stems = [_without(fact.key, base, other) for fact in (one, two)]
    is_said = bool(stems[0]) or one.unit is not None
    return " ".join(only) if stems[0] == stems[1] and is_said else None


def _is_base(one: Fact, two: Fact, base: str, other: str) -> bool:
    """Whether the first of them is what the second is held against."""
    if one.key == two.key:
        return one.at <= two.at
    words = plain(one.key).split(), plain(two.key).split()
    only = [
        " ".join(word for word in words[0] if word not in words[1]),
        " ".join(word for word in words[1] if word not in words[0]),
    ]
    is_base = [bool(re.search(base, text)) for text in only]
    if is_base[0] != is_base[1]:
        return is_base[0]
    is_other = [bool(re.search(other, text)) for text in only]
    if is_other[0] != is_other[1]:
        return is_other[1]
    if bool(only[0]) != bool(only[1]):
        return bool(only[0])
    return one.at <= two.at


@lru_cache(maxsize=4096)
def _without(key: str, base: str, other: str) -> str:
    text = re.sub(other, " ", re.sub(base, " ", plain(key)))
    return " ".join(sorted(re.sub(_FILLERS, " ", text).split()))

"""In how many bits a figure was measured, by the words of its key, and which of two is the lower.

A low precision is as often held against another low one (`fp4` against `fp8`) as against half.
"""

import re
from dataclasses import replace

from controlplane.diagnosis.views.contrast import Contrast
from controlplane.diagnosis.views.slowdown import Slowdown, slowdowns
from controlplane.diagnosis.views.told import plain, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN

_BITS: tuple[tuple[int, str], ...] = (
    (4, r"(nv|mx)?fp4|int4|nf4|w4a(16|8|4)|awq|gptq|4 ?bits?|q4(_?k?_?[sml0]?)?"),
    (8, r"fp8|mxfp8|f8|e4m3|e5m2|int8|w8a(8|16)|8 ?bits?|q8(_?0)?"),
    (16, r"bf16|bfloat16|fp16|float16|f16|half|16 ?bits?|unquanti[sz]ed|full precision"),
)
_ABOUT = r"compute|weights?|path|build|checkpoint|with|now|here|today|throughput|speed|same|load"
_ANY = rf"\b({'|'.join(words for _, words in _BITS)}|{_ABOUT})\b"
_IS_SET = r"\b(weights?|quanti\w*|precision|dtype|checkpoint|model|format)\b"


def bits_of(text: str) -> int | None:
    """The fewest that `text` names; None where it names no precision."""
    words = text.lower().replace("_", " ").replace("-", " ")
    return next((bits for bits, named in _BITS if re.search(rf"\b({named})\b", words)), None)


def slower_in_fewer_bits(window: Window, said: list[str]) -> list[Slowdown]:
    """What was measured in fewer bits against the same in more, the greatest first; `said` are
    lines in which the engine names the precision that runs now."""
    here = _bits_now(window, said)
    found = []
    for slow in slowdowns(window, base=_ANY, other=_ANY):
        pair = slow.contrast
        if pair.base.key == pair.other.key or re.search(FIRST_TOKEN, pair.keys):
            continue
        one, two = bits_of(plain(pair.base.key)), bits_of(plain(pair.other.key))
        if one is None and two is None:
            continue
        first, second = one or here, two or here
        if first is None or second is None or first == second:
            continue
        found.append(slow if first > second else _turned(slow))
    return sorted(found, key=lambda slow: -slow.factor)


def _bits_now(window: Window, said: list[str]) -> int | None:
    told = [fact.raw for fact in told_all(window, _IS_SET) if fact.value is None]
    return next((bits for text in (*told, *said) if (bits := bits_of(text)) is not None), None)


def _turned(slow: Slowdown) -> Slowdown:
    pair = slow.contrast
    turned = Contrast(
        base=pair.other,
        other=pair.base,
        base_value=pair.value,
        value=pair.base_value,
        circumstance=pair.circumstance,
    )
    return replace(slow, contrast=turned, factor=1 / slow.factor)

"""How much slower one way is than another, of whatever speeds and times were told of both."""

import itertools
import re
from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.contrast import BASE, MOST_FACTS, OTHER, Contrast, contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_SPEED = (
    r"\b(tok(en)?s?( per)? s|tokens per second|tps|throughput|toks?|qps|rps|req(uest)?s?( per)? s"
    r"|generation rate|decode rate|speed|images per s|speedup)\b|per (s|min)$"
)
_TIME = (
    r"\b(itl|tpot|latency|ttft|e2e|duration|step time|time|seconds|ms|inter token|per token"
    r"|elapsed|wall|first token|eval|us)\b"
)
NOT_PACE = (
    r"uptime|timeout|time ?stamp|prefill budget|limit|deadline|interval|startup|load time|rtt"
    r"|round trip|arrivals|arrived|arriving|incoming|offered|demand|reject"
    r"|429|retr|prefill steps|objective|slo\b|target|clock|\bage\b|\bago\b"
)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """`factor` above one: the other way is slower than the base."""

    contrast: Contrast
    factor: float
    is_of_time: bool

    @property
    def says(self) -> str:
        """Both as they were told, and by how much."""
        return f"{self.contrast.says} ({self.factor:.3g} times as slow)"


def slowdowns(
    window: Window, *, base: str = BASE, other: str = OTHER, pattern: str = ""
) -> list[Slowdown]:
    """The greatest first. `pattern` narrows what is compared, besides being a speed or a time."""
    found = []
    for contrast in contrasts(window, pattern or ".", base=base, other=other, without=NOT_PACE):
        is_time = is_of_time(contrast.other)
        if is_time is None or contrast.base_value <= 0 or contrast.value <= 0:
            continue
        ratio = contrast.value / contrast.base_value
        found.append(Slowdown(contrast, ratio if is_time else 1 / ratio, is_time))
    return sorted(found, key=lambda each: -each.factor)


def sibling_slowdown(window: Window) -> Slowdown | None:
    """The same figure of two that differ in a letter or a number alone (`pod_a`, `pod_b`), the
    slower against the faster."""
    worst: Slowdown | None = None
    for one, two in itertools.combinations(window.facts[-MOST_FACTS:], 2):
        words = plain(one.key).split(), plain(two.key).split()
        if len(words[0]) != len(words[1]) or one.unit is not two.unit or one.key == two.key:
            continue
        apart = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
        if len(apart) != 1 or any(len(word) > 1 and not word.isdigit() for word in apart[0]):
            continue
        first, second, is_time = number_of(one), number_of(two), is_of_time(one)
        if is_time is None or not first or not second:
            continue
        slow_first = (first > second) == is_time
        base, other = (two, one) if slow_first else (one, two)
        factor = max(first, second) / min(first, second)
        contrast = Contrast(
            base=base,
            other=other,
            base_value=number_of(base) or 0.0,
            value=number_of(other) or 0.0,
        )
        if worst is None or factor > worst.factor:
            worst = Slowdown(contrast, factor, is_time)
    return worst


def slower_than_told(
    window: Window, measured: Series | None, base: str
) -> tuple[float, str] | None:
    """How many times as slow tokens come now (`measured`, tokens a second) as in the circumstance
    that `base` names, and both in words. None where nobody told that speed."""
    if measured is None or late(measured) <= 0:
        return None
    for fact in reversed(told_all(window, base, without=NOT_PACE)):
        value = number_of(fact)
        is_tokens = fact.unit is Unit.TOKENS_PER_SECOND
        if value and is_tokens and not re.search(r"prompt|prefill|input", plain(fact.key)):
            now = late(measured)
            return value / now, f"{fact.key} {fact.raw}, {measured.origin.name} {measured.last.raw}"
    return None


def is_of_time(fact: Fact) -> bool | None:
    """True for a time, False for a speed, None for neither."""
    if fact.unit is Unit.SECONDS:
        return True
    if fact.unit in (Unit.TOKENS_PER_SECOND, Unit.PER_SECOND):
        return False
    if fact.unit is not None:
        return None
    text = plain(fact.key)
    if re.search(_SPEED, text):
        return False
    return True if re.search(_TIME, text) else None

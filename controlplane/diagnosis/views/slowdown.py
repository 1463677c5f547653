"""How much slower one way is than another, of whatever speeds and times were told of both."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.signal import Unit
from controlplane.diagnosis.views.contrast import BASE, OTHER, Contrast, contrasts
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.window import Window

_SPEED = (
    r"\b(tok(en)?s? per s|tokens per second|tps|throughput|toks?|qps|rps|req(uest)?s? per s"
    r"|generation rate|decode rate|speed|images per s)\b|per s$"
)
_TIME = (
    r"\b(itl|tpot|latency|ttft|e2e|duration|step time|time|seconds|ms|inter token|per token"
    r"|elapsed|wall|first token|eval)\b"
)
_NOT_PACE = r"uptime|timeout|time ?stamp|prefill budget|limit|deadline|interval|startup|load time"


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
    for contrast in contrasts(
        window, f"(?=.*({_SPEED}|{_TIME})){pattern}", base=base, other=other, without=_NOT_PACE
    ):
        is_time = is_of_time(contrast.other)
        if is_time is None or contrast.base_value <= 0 or contrast.value <= 0:
            continue
        ratio = contrast.value / contrast.base_value
        found.append(Slowdown(contrast, ratio if is_time else 1 / ratio, is_time))
    return sorted(found, key=lambda each: -each.factor)


def is_of_time(fact: Fact) -> bool | None:
    """True for a time, False for a speed, None for neither."""
    if fact.unit is Unit.SECONDS:
        return True
    if fact.unit in (Unit.TOKENS_PER_SECOND, Unit.PER_SECOND):
        return False
    text = plain(fact.key)
    if re.search(_SPEED, text):
        return False
    return True if re.search(_TIME, text) else None

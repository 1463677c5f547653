"""How busy the device and the processes around it are."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

IDLE_BELOW = 0.6
"""Of the time: the usual counter counts any kernel as busy, so that a device that really is bound
shows nine tenths and more."""
BUSY_CORE = 0.85
"""Of one core: a Python process that is the bottleneck stands at about one."""

_USAGE = (
    r"\b(gpus?|devices?|sm|cuda|accelerator|npu|vram bus|fwd)\b.*\b(util|utili[sz]ation|usage|busy"
    r"|active|load|occupancy|duty|percent)\b|\bgpu (percent|pct)$|^(gpu|sm) ?(util)?$"
)
_NOT_USAGE = (
    r"mem|memory|vram|kv|cache|in use gib|power|temp|wanted|limit|other|another|before|remote"
    r"|expected|offline|ideal"
)


def device_usage(window: Window) -> Figure | None:
    """A share of the time."""
    series = window.find(Signal.DEVICE_USAGE)
    if series is not None:
        return Figure(late(series), f"{series.origin.name} {series.last.raw}")
    found = [
        (fact, share)
        for fact in told_all(window, _USAGE, without=_NOT_USAGE)
        if (share := share_of(fact)) is not None and not _is_a_name(fact)
    ]
    if not found:
        return None
    newest = max(fact.at for fact, _ in found)
    latest = [(fact, share) for fact, share in found if fact.at == newest]
    bounds = [each for each in latest if re.search(r"low|high|min|max", each[0].key.lower())]
    if len(bounds) > 1:
        says = ", ".join(f"{fact.key} {fact.raw}" for fact, _ in bounds)
        return Figure(sum(share for _, share in bounds) / len(bounds), says)
    fact, share = min(latest, key=lambda each: len(each[0].key))
    return Figure(share, f"{fact.key} {fact.raw}", fact)


def _is_a_name(fact: Fact) -> bool:
    """`gpu: 2 x H200` says what it is, and not how busy."""
    return fact.value is None and re.search(r"\b[a-z]+\d|\d ?x\b", fact.raw.lower()) is not None


def power_share(window: Window) -> Figure | None:
    """Of what the device may draw, as it was told: a share, or watts beside a limit."""
    told_share = told_all(window, r"\bpower\b.*\b(cap|limit|tdp|share|percent|pct)\b")
    for fact in reversed(told_share):
        share = number_of(fact)
        if (
            share is not None
            and 0 < share <= 1
            and not re.search(r"\bw(atts?)?\b", plain(fact.key))
        ):
            return Figure(share, f"{fact.key} {fact.raw}", fact)
    limits = told_all(window, r"\bpower\b.*\b(cap|limit|max)\b|\b(tdp|power cap|power limit)\b")
    most = number_of(limits[-1]) if limits else None
    drawn = [
        (fact, watts)
        for fact in told_all(window, r"\bpower\b|\bwatts?\b", without=r"cap\b|limit|max|tdp|share")
        if (watts := number_of(fact)) is not None
    ]
    if not most or not drawn:
        return None
    fact, watts = max(drawn, key=lambda each: each[1])
    return Figure(watts / most, f"{fact.key} {fact.raw} of {limits[-1].raw}", fact)


def is_power_low(window: Window) -> bool:
    """The device draws so little that it cannot be at work most of the time."""
    share = power_share(window)
    return share is not None and share.value < _LOW_POWER


_LOW_POWER = 0.35
"""Of its limit: an idle one draws a tenth to a fifth, one that only reads weights half."""


def is_device_idle(window: Window) -> bool | None:
    """A good part of the time; None where nobody knows."""
    usage = device_usage(window)
    return None if usage is None else usage.value < IDLE_BELOW


def cpu_of(window: Window, who: str, *, other_than: str = "") -> Figure | None:
    """Cores that a process keeps busy: 1.0 is one. `who` is a pattern of its name, `other_than` of
    names that are not meant."""
    found = [
        Figure(cores, f"{fact.key} {fact.raw}", fact)
        for fact in told_all(
            window,
            rf"(?=.*\bcpu\b)(?=.*\b({who})\b)",
            without=f"{_NOT_A_SHARE}|{other_than}" if other_than else _NOT_A_SHARE,
        )
        if (cores := _cores(fact)) is not None
    ]
    return max(found, key=lambda figure: figure.value, default=None)


def _cores(fact: Fact) -> float | None:
    value = number_of(fact)
    if value is None or re.search(r"\b(ms|time|seconds|cores|limit)\b", plain(fact.key)):
        return None
    if fact.unit is Unit.RATIO:
        return value
    is_percent = re.search(r"percent|pct|%", f"{plain(fact.key)} {fact.raw}")
    return value / 100.0 if is_percent or value > _MOST_CORES else value


_NOT_A_SHARE = r"mem|count$|other|before"
_MOST_CORES = 8.0
"""A figure without a unit above it is a percentage: no front process keeps more cores busy."""


def cite_usage(argument: Argument, usage: Figure | None) -> None:
    if usage is None:
        return
    if usage.fact is not None:
        argument.fact(usage.fact, "the device is idle much of the time")
    else:
        argument.says(f"{usage.says}: the device is idle much of the time")

"""A duration that is too long by whole hours: one of its ends was read in another time zone."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_ZONE_STEP = 1800.0
"""Seconds. Nearly all zones are whole or half hours from UTC."""
_LARGEST_ZONE = 14 * 3600.0
_SURE_WITHIN = 0.15
"""Of a step, on either side: what is nearer to the middle is no zone."""
_LASTING = r"\b(latency|duration|elapsed|span|e2e|took|request time|response time|age)\b"
_NO_LASTING = (
    r"timeout|time ?out|limit|max|budget|target|slo|threshold|interval|uptime|idle|keep ?alive|ttl"
    r"|ttft|itl|tpot|first token|p\d\d|queue|lead|window"
)
_SHOWN = r"\b(shown|shows?|display\w*|viewer|ui|live|trace|panel|dashboard|rendered|reported)\b"
_AGAIN = r"\b(reload\w*|refresh\w*|after|gateway|server|engine|actual|measured|client)\b"
_SPEAKS_OF_ZONES = re.compile(
    r"\bnaive\b|\btz\b|\b(utc|gmt)\s?[+-]\s?\d|\b(time ?)?zones?\b|\butc offset\b|\blocal time\b",
    re.IGNORECASE,
)


def whole_hours_apart(argument: Argument, window: Window) -> bool:
    """What is shown for a request is a zone's hours, and its duration on one clock more or less."""
    zones = _zones(window)
    for shown, long in _lasting(window, rf"(?=.*{_SHOWN})(?!.*{_AGAIN})(?=.*{_LASTING})"):
        for true, short in _lasting(window, rf"(?=.*{_LASTING})"):
            if true.key == shown.key or re.search(r"child", true.key):
                continue
            if not zones and not re.search(_AGAIN, plain(true.key)):
                continue
            offset = _zone_between(long, short)
            if offset is None:
                continue
            argument.says(
                f"{says(shown)}, and {says(true)}: {number(offset / 3600)} hours apart, as time "
                "zones are"
            )
            for fact in zones:
                argument.fact(fact)
            _cite_children(argument, window)
            return True
    return False


def _lasting(window: Window, pattern: str) -> list[tuple[Fact, float]]:
    return [
        (fact, value)
        for fact in told_all(window, pattern, without=_NO_LASTING)
        if fact.unit is Unit.SECONDS and (value := number_of(fact)) is not None and value > 0
    ]


def _zone_between(long: float, short: float) -> float | None:
    """Seconds. One clock's duration may be that of the whole request, or of a part of it."""
    steps = round(long / _ZONE_STEP)
    offset = steps * _ZONE_STEP
    if steps < 1 or offset > _LARGEST_ZONE or short > _SURE_WITHIN * 2 * _ZONE_STEP:
        return None
    rounded = 60.0 if long % 60 == 0 else 1.0
    is_near = abs(long - offset) <= min(short + rounded, _SURE_WITHIN * 2 * _ZONE_STEP)
    return offset if is_near else None


def _zones(window: Window) -> list[Fact]:
    """What is told of the zones of clocks and stamps."""
    return [
        fact for fact in window.facts if _SPEAKS_OF_ZONES.search(f"{plain(fact.key)} {fact.raw}")
    ]


def _cite_children(argument: Argument, window: Window) -> None:
    """A span that is longer than the one in which it is."""
    for child, inner in _lasting(window, r"\bchild\b.*\bspan|\bspan\b.*\bchild"):
        for parent, outer in _lasting(
            window, r"\b(parent|root)\b.*\bspan|\bspan\b.*\b(parent|root)"
        ):
            if child.at == parent.at and inner > outer:
                argument.says(f"{says(child)} is within {says(parent)}")

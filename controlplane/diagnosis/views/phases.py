"""Which replicas prefill and which decode, by role where it is told, else by what they do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import recent_rate
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_ROLES = ("role", "engine_type", "phase", "disaggregation_mode")
_NAMES = ("replica", "instance", "pod", "engine", "worker")
"""Labels whose value is a name, which may say what the place is for: `decode-0`."""
_NAMED = re.compile(r"(?:^|[^a-z])(prefill|decode)(?:er)?(?:[^a-z]|$)", re.IGNORECASE)
_HARDLY = 0.1
"""Of the tokens that the busiest generates: a prefill worker makes one for each request."""
_LEAST_DECODE = 1.0
"""Tokens a second: below it nobody is known to decode."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Labels `replica` of the workers of each phase."""

    prefill: frozenset[str]
    decode: frozenset[str]


def phases_of(window: Window) -> Phases | None:
    """None where the phases are not apart, as far as can be seen."""
    told = _by_role(window)
    if told is not None:
        return told
    if window.find(Signal.DECODE_QUEUE) is None and window.find(Signal.TRANSFER_QUEUE) is None:
        return None
    speeds = {
        series.labels["replica"]: rate
        for series in window.all_series(Signal.GENERATION_TOKENS)
        if "replica" in series.labels and (rate := recent_rate(series, window)) is not None
    }
    most = max(speeds.values(), default=0.0)
    if len(speeds) < 2 or most < _LEAST_DECODE:
        return None
    prefill = frozenset(place for place, speed in speeds.items() if speed <= _HARDLY * most)
    return Phases(prefill, frozenset(speeds) - prefill) if prefill else None


def role_of(labels: Mapping[str, str]) -> str:
    """`prefill` or `decode` where a label says so, or a name does; empty for anything else."""
    for label in _ROLES:
        if labels.get(label) in ("prefill", "decode"):
            return labels[label]
    for label in _NAMES:
        found = _NAMED.search(labels.get(label, ""))
        if found is not None:
            return found[1].lower()
    return ""


def _by_role(window: Window) -> Phases | None:
    places: dict[str, set[str]] = {"prefill": set(), "decode": set()}
    for series in window.all_series(Signal.RUNNING):
        role = role_of(series.labels)
        if role in places and "replica" in series.labels:
            places[role].add(series.labels["replica"])
    if not places["prefill"] or not places["decode"]:
        return None
    return Phases(frozenset(places["prefill"]), frozenset(places["decode"]))


def of_places(window: Window, signal: Signal, places: frozenset[str]) -> Sequence[Series]:
    """The series of `signal` of these replicas."""
    return [
        series for series in window.all_series(signal) if series.labels.get("replica") in places
    ]


def sum_late(series: Sequence[Series]) -> float | None:
    """Of late, over all; None where there are none."""
    return sum(late(each) for each in series) if series else None


def greatest_late(series: Sequence[Series]) -> float | None:
    """Of late, of the one with most; None where there are none."""
    return max((late(each) for each in series), default=None)

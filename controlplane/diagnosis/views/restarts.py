"""That an engine was started anew while it was watched: its counters began again."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from controlplane.diagnosis.citing import seconds
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import SignalKind

_PAGES = (SourceKind.METRICS, SourceKind.PROMETHEUS)
_FEWEST = 2
"""Counters that fell together: one alone may have been reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Of one process."""

    at: float
    """The first page of the new one."""
    says: str

    @property
    def needs(self) -> tuple[str, ...]:
        """What would tell why."""
        return (
            f"how its process ended before ({self.says}): its exit code, the kernel's log, and who "
            "stopped it",
            "the end of the log of the one that ended (`pilothouse diagnose engine.log`)",
        )


def restart_of(window: Window) -> Restart | None:
    """The newest; None where there was none, or somebody is known to have done it."""
    return window.once(restart_of, lambda: _restart_of(window))


def _restart_of(window: Window) -> Restart | None:
    if window.changes_with(r"restart|roll|deploy|start|upgrad|updat|revision|replace|version"):
        return None
    places: dict[str, list[Series]] = defaultdict(list)
    for series in window.series:
        is_own = not series.signal.value.startswith("gateway")
        is_counter = series.signal.terms.kind is SignalKind.COUNTER
        if is_own and is_counter and series.origin.kind in _PAGES:
            places[series.labels.get("replica", "")].append(series)
    found = (_newest(window, name, counters) for name, counters in places.items())
    return max((each for each in found if each is not None), key=lambda e: e.at, default=None)


def _newest(window: Window, name: str, counters: Sequence[Series]) -> Restart | None:
    """Where all that were above zero fell on one page, and none came back on the next."""
    falls: dict[float, list[str]] = defaultdict(list)
    for each in counters:
        for at, step in _falls(each):
            falls[at].append(f"{each.origin.name} {step}")
    if not falls or _answer_by_turns(counters):
        return None
    at = max(falls)
    before = [each.at(at - _JUST_BEFORE) for each in counters]
    could_fall = sum(reading is not None and reading.value > 0 for reading in before)
    if len(falls[at]) < max(_FEWEST, could_fall):
        return None
    ago = seconds(window.end - at)
    who = f"{name} " if name else "it "
    says = f"{who}restarted during the watch, {ago} s before its end: {', '.join(falls[at][:2])}"
    return Restart(at=at, says=says)


_JUST_BEFORE = 1e-6


def _falls(counter: Series) -> Iterator[tuple[float, str]]:
    for before, after in pairwise(counter.readings):
        if after.value < before.value:
            yield after.at, f"{before.raw} -> {after.raw}"


def _answer_by_turns(counters: Sequence[Series]) -> bool:
    """Several processes at one address: a counter comes back to where it was on the next page."""
    return any(
        after.value < before.value <= later.value
        for each in counters
        for before, after, later in zip(
            each.readings, each.readings[1:], each.readings[2:], strict=False
        )
    )

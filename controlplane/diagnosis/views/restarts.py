"""That an engine was started anew while it was watched: its counters began again."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from controlplane.diagnosis.citing import seconds
from controlplane.diagnosis.reading import Reading, Series, SourceKind
from controlplane.diagnosis.turnover import Counted, Turnover, TurnoverWatch
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, SignalKind

_PAGES = (SourceKind.METRICS, SourceKind.PROMETHEUS)
_FEWEST = 2
"""Counters that fell together: one alone may have been reset."""
_HELD_PAGES = 4
"""A watch is short, and what is asked for first hangs on it."""
_CAUSES = r"restart|roll|deploy|start|upgrad|updat|revision|replace|version"
_CAUSED_WITHIN_SECONDS = 600.0
"""Before the fall: a start with a large model takes minutes."""
_NOTED_LATE_SECONDS = 60.0
"""People write down the minute."""


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
    return window.once(restart_of, lambda: max(_found(window), key=lambda e: e.at, default=None))


def _found(window: Window) -> Iterator[Restart]:
    places: dict[tuple[str, str], list[Series]] = defaultdict(list)
    for series in window.series:
        if _tells(series):
            places[series.labels.get("replica", ""), series.origin.place].append(series)
    for (name, _), own in places.items():
        turnover = _newest(own)
        if turnover is not None and not _is_known(window, name, turnover):
            yield _told(window, name, turnover, own)


def _tells(series: Series) -> bool:
    """A counter of the engine, or when its process began."""
    if series.origin.kind not in _PAGES or series.signal.value.startswith("gateway"):
        return False
    is_counter = series.signal.terms.kind is SignalKind.COUNTER
    return is_counter or series.signal is Signal.PROCESS_STARTED


def _newest(own: Sequence[Series]) -> Turnover | None:
    watch = TurnoverWatch(_HELD_PAGES)
    for page in pages_of(own):
        watch.take(page)
    found = watch.last
    return found if found is not None and len(found.fallen) >= _FEWEST else None


def pages_of(own: Sequence[Series]) -> Iterator[Counted]:
    """What these count, page by page. A counter's key is its place among `own`."""
    counters: dict[float, dict[Hashable, float]] = defaultdict(dict)
    starts: dict[float, dict[Hashable, float]] = defaultdict(dict)
    for index, series in enumerate(own):
        into = starts if series.signal is Signal.PROCESS_STARTED else counters
        for reading in series.readings:
            into[reading.at][index] = reading.value
    for at in sorted(counters):
        yield Counted(at=at, counters=counters[at], starts=starts.get(at, {}))


def _is_known(window: Window, name: str, turnover: Turnover) -> bool:
    """Somebody did it: a change shortly before, that is of no other process, and is none that we
    read off the very same pages."""
    since = turnover.before.at - _CAUSED_WITHIN_SECONDS
    until = turnover.first.at + _NOTED_LATE_SECONDS
    return any(
        since <= change.at <= until and change.subject in ("", name) and not change.is_observation
        for change in window.changes_with(_CAUSES)
    )


def _told(window: Window, name: str, turnover: Turnover, own: Sequence[Series]) -> Restart:
    at = turnover.first.at
    fallen = [each for index, each in enumerate(own) if index in turnover.fallen][:_FEWEST]
    steps = [
        f"{each.origin.name} {_raw(each, turnover.before.at)} -> {_raw(each, at)}"
        for each in fallen
    ]
    who = f"{name} " if name else "it "
    ago = seconds(window.end - at)
    says = f"{who}restarted during the watch, {ago} s before its end: {', '.join(steps)}"
    return Restart(at=at, says=says)


def _raw(series: Series, at: float) -> str:
    reading: Reading | None = series.at(at)
    return "-" if reading is None else reading.raw

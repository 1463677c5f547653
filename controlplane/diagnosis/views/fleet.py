"""Replicas side by side, and the gateway before them: what no replica shows alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, SignalKind

REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What one replica tells of itself."""

    name: str
    series: tuple[Series, ...]

    def find(self, signal: Signal) -> Series | None:
        """The one series of it, or the first of several ranks."""
        return next((each for each in self.series if each.signal is signal), None)

    def total(self, signal: Signal, start: float, end: float) -> float | None:
        """Of a counter, by how much all its series rose between two times; None where it is not
        told."""
        found = [each for each in self.series if each.signal is signal]
        return sum(grown(each, start, end) for each in found) if found else None

    @property
    def counters(self) -> tuple[Series, ...]:
        """Read twice at least."""
        return tuple(
            each
            for each in self.series
            if each.signal.terms.kind is SignalKind.COUNTER and len(each.readings) > 1
        )

    @property
    def changed_at(self) -> float:
        """When anything of it was last another value than before."""
        return max((_changed_at(each) for each in self.series), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Two replicas at least."""

    window: Window
    replicas: tuple[Replica, ...]

    def others(self, replica: Replica) -> tuple[Replica, ...]:
        """All but this one."""
        return tuple(each for each in self.replicas if each is not replica)

    def gateway(self, signal: Signal) -> Series | None:
        """What the gateway counts."""
        return self.window.find(signal)


def fleet_of(window: Window) -> Fleet | None:
    """None where fewer than two replicas are told apart."""
    by_name: dict[str, list[Series]] = {}
    for series in window.series:
        name = series.labels.get(REPLICA)
        if name is not None:
            by_name.setdefault(name, []).append(series)
    if len(by_name) < 2:
        return None
    return Fleet(
        window=window,
        replicas=tuple(
            Replica(name=name, series=tuple(series)) for name, series in sorted(by_name.items())
        ),
    )


def grown(series: Series | None, start: float, end: float) -> float:
    """By how much a counter rose from the reading at or before `start` to that at `end`."""
    if series is None:
        return 0.0
    first, last = series.at(start) or series.first, series.at(end)
    if last is None or last.at <= first.at:
        return 0.0
    part = series.between(first.at, last.at)
    return 0.0 if part is None else part.increase or 0.0


def mean_of(series: Series | None, start: float, end: float) -> float | None:
    """Of a gauge's readings between two times; None where there are none."""
    part = None if series is None else series.between(start, end)
    return None if part is None else part.mean


def total_at(series: Sequence[Series], moment: float) -> float:
    """Of gauges, as they stood then."""
    return sum(found.value for each in series if (found := each.at(moment)) is not None)


def _changed_at(series: Series) -> float:
    last = series.last
    moment = series.first.at
    for reading in reversed(series.readings):
        if reading.value != last.value:
            return moment
        moment = reading.at
    return series.first.at

"""Writing a vocabulary down: one line a series, under one prefix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict, Unpack

from dataplane.engine_metrics.series import EngineSeries, SeriesKind, Unit


class More(TypedDict, total=False):
    """The fields of EngineSeries that most series leave alone."""

    factor: float
    where: Mapping[str, str]
    by: str | None
    until: str | None
    trap: str | None


@dataclass(frozen=True, slots=True)
class Prefixed:
    """Makes series whose exported names begin alike."""

    prefix: str

    def gauge(self, signal: str, name: str, unit: Unit, **more: Unpack[More]) -> EngineSeries:
        """A value that rises and falls."""
        return self._make(signal, name, SeriesKind.GAUGE, unit, more)

    def counter(self, signal: str, name: str, unit: Unit, **more: Unpack[More]) -> EngineSeries:
        """`name` is without the `_total` that it has on the wire."""
        return self._make(signal, f"{name}_total", SeriesKind.COUNTER, unit, more)

    def histogram(self, signal: str, name: str, unit: Unit, **more: Unpack[More]) -> EngineSeries:
        """`name` is that of the family."""
        return self._make(signal, name, SeriesKind.HISTOGRAM, unit, more)

    def info(self, signal: str, name: str, **more: Unpack[More]) -> EngineSeries:
        """A series whose labels tell something."""
        return self._make(signal, name, SeriesKind.INFO, Unit.NONE, more)

    def _make(
        self, signal: str, name: str, kind: SeriesKind, unit: Unit, more: More
    ) -> EngineSeries:
        return EngineSeries(
            signal=signal, exported=f"{self.prefix}{name}", kind=kind, unit=unit, **more
        )

"""One figure of a statistics line, and where in it it stands."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from controlplane.diagnosis.sources.quantity import number_of
from dataplane.engine_metrics.signal import Signal

Span = tuple[int, int]
"""From which character to before which."""


class Unit(Enum):
    """How a number is meant."""

    PLAIN = "plain"
    """In the signal's own unit."""
    PERCENT = "percent"
    FLAG = "flag"
    """True or False."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A reading of a signal, as a line states it."""

    signal: Signal
    name: str
    """The words of the line that stand before it."""
    value: float
    raw: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FigurePlace:
    """The same in all lines that differ in digits alone."""

    signal: Signal
    name: str
    at: Span
    unit: Unit = Unit.PLAIN
    labels: Mapping[str, str] = field(default_factory=dict)
    label_at: tuple[str, Span] | None = None
    """One label whose value stands in the line, and where; a number loses its leading zeros."""

    def read(self, text: str) -> Figure | None:
        """What stands there. None where it is no number."""
        start, stop = self.at
        raw = text[start:stop]
        if self.unit is Unit.FLAG:
            return Figure(self.signal, self.name, float(raw == "True"), raw)
        value = number_of(raw)
        if value is None:
            return None
        if self.unit is Unit.PERCENT:
            value, raw = value / 100, f"{raw} %"
        labels = self.labels
        if self.label_at is not None:
            name, (start, stop) = self.label_at
            labels = _label(name, text[start:stop])
        return Figure(self.signal, self.name, value, raw, labels)


@functools.lru_cache(maxsize=1024)
def _label(name: str, value: str) -> Mapping[str, str]:
    return {name: str(int(value)) if value.isdecimal() else value}

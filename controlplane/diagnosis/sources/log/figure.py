"""One figure of a statistics line."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.diagnosis.sources.quantity import number_of
from dataplane.engine_metrics.signal import Signal


@dataclass(frozen=True, slots=True)
class Figure:
    """A reading of a signal, as a line states it."""

    signal: Signal
    name: str
    """The words of the line that stand before it."""
    value: float
    raw: str
    labels: Mapping[str, str] = field(default_factory=dict)


def percent(signal: Signal, name: str, text: str, **labels: str) -> Figure | None:
    """Of `95.9`, which stands for 95.9 %."""
    value = number_of(text)
    return None if value is None else Figure(signal, name, value / 100, f"{text} %", labels)


def plain(signal: Signal, name: str, text: str, **labels: str) -> Figure | None:
    """Of a number in the signal's own unit."""
    value = number_of(text)
    return None if value is None else Figure(signal, name, value, text, labels)

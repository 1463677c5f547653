"""One series that an engine of some version exports, and what it is called here.

A signal (`running`, `kv_used_ratio`) is what a reader wants to know; a series is how one engine
says it. Several series of a vocabulary may stand for one signal, because names change between
versions: the first that is there is the one to read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SeriesKind(StrEnum):
    """How its value is to be read."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only rises; a fall is a restart."""
    HISTOGRAM = "histogram"
    """`_bucket`, `_sum` and `_count` stand behind its name."""
    INFO = "info"
    """The value says nothing, the labels do."""


class Unit(StrEnum):
    """Of a signal, after `EngineSeries.factor`."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    BLOCKS = "blocks"
    STEPS = "steps"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    RATIO = "ratio"
    """0 to 1."""
    ITEMS = "items"
    NONE = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSeries:
    """How one engine exports one signal."""

    signal: str
    """Our name of it, the same for every engine."""
    exported: str
    """The name on the wire: a counter's with `_total`, a histogram's without `_bucket`."""
    kind: SeriesKind
    unit: Unit
    factor: float = 1.0
    """The exported value, times this, is in `unit`."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Only samples with these labels are meant."""
    by: str | None = None
    """The label that tells its parts (`reason`, `source`, `mode`); None: it has none."""
    until: str | None = None
    """The version that renamed or removed it, where it is an old name; None: current."""
    trap: str | None = None
    """What a reader must know before using it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineVocabulary:
    """All that is known of one engine's series, newest names first."""

    engine: str
    prefix: str
    """Of every series of its own."""
    series: tuple[EngineSeries, ...]
    parallel_labels: tuple[str, ...] = ()
    """Labels of engines that work side by side: their values add up (a ratio's is read of each)."""
    copy_labels: tuple[str, ...] = ()
    """Labels of processes that tell the same thing again: one of them is read."""
    total_labels: tuple[str, ...] = ()
    """Labels of parts beside their total: where one is there, the empty value is the total."""

    def of_signal(self, signal: str) -> tuple[EngineSeries, ...]:
        """Its series, the newest name first."""
        return tuple(each for each in self.series if each.signal == signal)

    @property
    def signals(self) -> frozenset[str]:
        """All that some version of it exports."""
        return frozenset(each.signal for each in self.series)

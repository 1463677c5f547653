"""What one source brought, before it is joined with what others did."""

from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.reading import HistogramSeries, Series
from controlplane.diagnosis.window import Change, Doubt, EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One source's share of a window: the same fields, each of which may be empty.

    All parts that are joined are on one clock. Indexes of events count from 0 in each part.
    """

    series: tuple[Series, ...] = ()
    histograms: tuple[HistogramSeries, ...] = ()
    facts: tuple[Fact, ...] = ()
    events: tuple[LogEvent, ...] = ()
    lines: tuple[str, ...] = ()
    line_times: tuple[float | None, ...] = ()
    """Of each of `lines`; empty where none is known."""
    num_lines: int = 0
    """How many there were; more than `lines` where a long log was thinned."""
    changes: tuple[Change, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    exported_names: frozenset[str] = frozenset()
    engine: EngineName | None = None
    """As far as this source shows it."""
    start: float | None = None
    end: float | None = None
    """From its first to its last moment, where it has times."""

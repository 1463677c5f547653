"""Looks at exporters at regular virtual times, as a Prometheus and a log agent would."""

from collections.abc import Sequence as ReadableSequence

from dataplane.simulation.observer.exporter import EngineExporter
from dataplane.simulation.observer.lines import Sink
from dataplane.simulation.timeline import Timeline

MIN_EVERY_SECONDS = 0.1


class Observation:
    """Scrapes every target every `every_seconds` from the start on, the last time at `until`.

    Log lines go to the exporters' own sinks at the interval of their dialect. Raises
    ValueError for an interval below 0.1 s.
    """

    def __init__(
        self,
        timeline: Timeline,
        exporters: ReadableSequence[EngineExporter],
        sink: Sink,
        *,
        every_seconds: float,
        until: float,
    ) -> None:
        if every_seconds < MIN_EVERY_SECONDS:
            raise ValueError(
                f"a scrape every {every_seconds:g} s is more than any engine is asked; "
                f"take 1s to 15s, and {MIN_EVERY_SECONDS:g}s at the least"
            )
        self._timeline = timeline
        self._exporters = exporters
        self._sink = sink
        self._every = every_seconds
        self._began_at = timeline.now
        self._until = until
        self._num_scrapes = 0

    def start(self) -> None:
        """Put everything on the timeline."""
        self._timeline.at(self._began_at, self._scrape)
        for exporter in self._exporters:
            _LogLoop(self._timeline, exporter, self._until).go_on()

    def _scrape(self) -> None:
        for exporter in self._exporters:
            self._sink(exporter.scrape())
        # A product, not a sum: the thousandth scrape is where it belongs.
        self._num_scrapes += 1
        following = self._began_at + self._num_scrapes * self._every
        if following <= self._until:
            self._timeline.at(following, self._scrape)


class _LogLoop:
    def __init__(self, timeline: Timeline, exporter: EngineExporter, until: float) -> None:
        self._timeline = timeline
        self._exporter = exporter
        self._until = until

    def go_on(self) -> None:
        following = self._timeline.now + self._exporter.dialect.log_every_seconds
        if following <= self._until:
            self._timeline.at(following, self._write)

    def _write(self) -> None:
        self._exporter.write_log()
        self.go_on()

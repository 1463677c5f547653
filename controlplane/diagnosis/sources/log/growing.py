"""Series that grow reading by reading, and stay within bounds however long a log is."""

from collections.abc import Mapping

from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.sources.log.figure import Figure
from dataplane.engine_metrics.signal import Signal

MOST_READINGS = 4000
"""A line every 10 s for half a day. Beyond it every second reading goes, again and again, so that
a series spans the whole log at an even step."""


class GrowingSeries:
    """The readings of all figures so far."""

    def __init__(self, place: str) -> None:
        """`place`: the file's name or the like."""
        self._place = place
        self._grown: dict[tuple[Signal, str, tuple[tuple[str, str], ...]], _Grown] = {}

    def add(self, figure: Figure, labels: Mapping[str, str], at: float) -> None:
        """`labels` are those of the line; a figure's own win."""
        every = (*labels.items(), *figure.labels.items())
        key = (figure.signal, figure.name, every)
        grown = self._grown.get(key)
        if grown is None:
            grown = self._grown[key] = _Grown()
        grown.add(at, figure)

    def series(self, shift: float, earliest: float) -> tuple[Series, ...]:
        """In the order in which they were first seen, each in time order; `shift` is taken from
        every time. What stood before the first line that had a time is as old as that."""
        return tuple(
            Series(
                signal=signal,
                origin=Origin(kind=SourceKind.LOG, name=name, place=self._place),
                readings=grown.in_time_order(shift, earliest),
                labels=dict(labels),
            )
            for (signal, name, labels), grown in self._grown.items()
        )


class _Grown:
    """One of them."""

    def __init__(self) -> None:
        self._kept: list[Reading] = []
        self._last: tuple[float, Figure] | None = None
        self._step = 1
        self._seen = 0

    def add(self, at: float, figure: Figure) -> None:
        if self._seen % self._step == 0:
            self._kept.append(Reading(at, figure.value, figure.raw))
            self._last = None
            if len(self._kept) >= MOST_READINGS:
                self._kept = self._kept[::2]
                self._step *= 2
        else:
            self._last = (at, figure)
        self._seen += 1

    def in_time_order(self, shift: float, earliest: float) -> tuple[Reading, ...]:
        readings = list(self._kept)
        if self._last is not None:
            at, figure = self._last
            readings.append(Reading(at, figure.value, figure.raw))
        return tuple(
            sorted(
                (
                    Reading(max(each.at, earliest) - shift, each.value, each.raw)
                    for each in readings
                ),
                key=lambda reading: reading.at,
            )
        )

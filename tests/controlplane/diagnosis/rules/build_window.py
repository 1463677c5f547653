"""Windows for tests of rules, from a few words each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.reading import HistogramSeries, Origin, Reading, Series, SourceKind
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.window import Change, Doubt, EngineName, Window
from dataplane.engine_metrics.signal import Signal, Unit


def series(
    signal: Signal,
    *values: float,
    every: float = 10.0,
    start: float = 0.0,
    name: str = "",
    kind: SourceKind = SourceKind.METRICS,
    **labels: str,
) -> Series:
    """Readings `every` so many seconds; `name` is its name on the wire."""
    return Series(
        signal=signal,
        origin=Origin(kind=kind, name=name or f"test:{signal.value}"),
        readings=tuple(
            Reading(start + index * every, value, f"{value:g}")
            for index, value in enumerate(values)
        ),
        labels=labels,
    )


def fact(
    key: str, raw: str | float, value: float | None = None, unit: Unit | None = None, at: float = 0
) -> Fact:
    """Something that is known; `raw` alone where it is a plain number or a text."""
    if value is None and isinstance(raw, int | float):
        value = float(raw)
    return Fact(
        key=key,
        raw=raw if isinstance(raw, str) else f"{raw:g}",
        words=frozenset(re.split(r"[^a-z0-9]+", key.lower())),
        at=at,
        value=value,
        unit=unit,
    )


def told(at: float = 0, /, **values: object) -> tuple[Fact, ...]:
    """What somebody wrote down, read as cases are read."""
    return facts_of(values, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A log line, and what the log's reader makes of it."""

    text: str
    kind: LogKind | None = None
    at: float | None = None
    fields: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


def said(
    kind: LogKind, text: str, *, at: float | None = None, rank: str | None = None, **fields: float
) -> Line:
    """A line that is an event."""
    return Line(
        text=text, kind=kind, at=at, fields=fields, words={} if rank is None else {"rank": rank}
    )


def window(
    *parts: Series | Line | Fact | tuple[Fact, ...] | Change | Doubt | str,
    engine: str = "vllm",
    exported: frozenset[str] = frozenset(),
    histograms: tuple[HistogramSeries, ...] = (),
    end: float | None = None,
) -> Window:
    """All of them in one window; a text is a log line that says nothing to the log's reader."""
    found = tuple(part for part in parts if isinstance(part, Series))
    lines = tuple(
        Line(text=part) if isinstance(part, str) else part
        for part in parts
        if isinstance(part, str | Line)
    )
    events = tuple(
        LogEvent(
            kind=line.kind,
            index=index,
            line=line.text,
            at=line.at,
            fields=line.fields,
            words=line.words,
        )
        for index, line in enumerate(lines)
        if line.kind is not None
    )
    facts = tuple(part for part in parts if isinstance(part, Fact)) + tuple(
        fact for part in parts if isinstance(part, tuple) for fact in part
    )
    moments = [each.last.at for each in found] + [each.at for each in facts]
    moments += [event.at for event in events if event.at is not None]
    return Window(
        start=0.0,
        end=max(moments, default=0.0) if end is None else end,
        engine=EngineName(name=engine),
        series=found,
        histograms=histograms,
        facts=facts,
        events=events,
        lines=tuple(line.text for line in lines),
        changes=tuple(part for part in parts if isinstance(part, Change)),
        doubts=tuple(part for part in parts if isinstance(part, Doubt)),
        exported_names=exported,
    )

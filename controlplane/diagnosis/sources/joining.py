"""What several looks brought, joined into one window: the only place where that is done.

Joining means: everything that was seen, on one clock, and each thing once. First all shares lie
side by side and nothing is decided (`beside`): lines and events are numbered on, facts and changes
come in the order of their times, the engine is the one that most of them name. Then it is decided
what is the same (`join`). A signal that several sources carry stands in the window once, from the
one that saw most of it, in replicas first and in moments then: otherwise whatever adds up ranks and
replicas would count it twice. Where the others say something else at the same time, that is a
doubt. The page and the log of one engine may call it by two names, a host and a pod; it is one
replica all the same.

Sources therefore hand in as many shares (`Part`) as they have, and put none together themselves.
Something else are several series of one signal added up to one (`summing`), a shorter stretch of a
window (`stretch`), and several looks of rules at one mechanism (`looks`).
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.reading import HistogramSeries, Origin, Series, SourceKind
from controlplane.diagnosis.sources.endpoint import OUR_OWN
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.told_lines import read_told_lines
from controlplane.diagnosis.window import Change, Doubt, DoubtKind, EngineName, Window
from dataplane.engine_metrics.signal import Signal

_SURER_FIRST = (
    SourceKind.METRICS,
    SourceKind.PROMETHEUS,
    SourceKind.LOG,
    SourceKind.RECORDS,
    SourceKind.GATEWAY,
)
"""Where two sources saw a signal equally often: what is exported is not rounded, a log line is."""


def join(
    parts: Iterable[Part], engine: EngineName | None = None, *, end: float | None = None
) -> Window:
    """One window of all `parts`. `engine` is what is known of it beside them, and it wins; `end` is
    until when one looked, whatever moments they have."""
    whole = beside(parts)
    series, doubts = _each_signal_once(_called_alike(list(_merged(whole.series))))
    facts = tuple(_without_repetitions(whole.facts))
    first, last = _span(whole, facts)
    return Window(
        start=first if end is None else first or end,
        end=last if end is None else end,
        engine=engine or whole.engine,
        series=series,
        histograms=_each_histogram_once(whole.histograms),
        facts=facts,
        events=whole.events,
        lines=whole.lines,
        line_times=whole.line_times,
        told_lines=read_told_lines(facts),
        changes=whole.changes,
        doubts=(*whole.doubts, *doubts),
        exported_names=whole.exported_names,
    )


def beside(parts: Iterable[Part]) -> Part:
    """Several shares as one: all that they have, and nothing decided."""
    parts = list(parts)
    starts = [part.start for part in parts if part.start is not None]
    ends = [part.end for part in parts if part.end is not None]
    return Part(
        series=_all(part.series for part in parts),
        histograms=_all(part.histograms for part in parts),
        facts=tuple(sorted(_all(part.facts for part in parts), key=_at)),
        events=_numbered_on(parts),
        lines=_all(part.lines for part in parts),
        line_times=_all(map(_line_times, parts)),
        num_lines=sum(map(_num_lines, parts)),
        changes=tuple(sorted(_all(part.changes for part in parts), key=_at)),
        doubts=_all(part.doubts for part in parts),
        exported_names=frozenset().union(*(part.exported_names for part in parts)),
        engine=_engine(parts),
        start=min((*starts, *ends), default=None),
        end=max((*starts, *ends), default=None),
    )


_T = TypeVar("_T")


def _all(shares: Iterable[tuple[_T, ...]]) -> tuple[_T, ...]:
    return tuple(itertools.chain.from_iterable(shares))


def _without_repetitions(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Settings of a fleet are the same at a hundred endpoints: what one has told, others that say
    the same add nothing to."""
    first: dict[tuple[str, str], str] = {}
    for fact in facts:
        if not fact.place or first.setdefault((fact.key, fact.raw), fact.place) == fact.place:
            yield fact


def _line_times(part: Part) -> tuple[float | None, ...]:
    return part.line_times or (None,) * len(part.lines)


def _num_lines(part: Part) -> int:
    return max(part.num_lines, len(part.lines))


def _at(each: Fact | Change) -> float:
    return each.at


def _span(whole: Part, facts: Sequence[Fact]) -> tuple[float, float]:
    """Of what was observed; a change may lie far before it."""
    moments = [moment for moment in (whole.start, whole.end) if moment is not None]
    moments += [fact.at for fact in facts]
    return (min(moments), max(moments)) if moments else (0.0, 0.0)


def _engine(parts: Sequence[Part]) -> EngineName | None:
    """The one that most name, the first of several, with the newest version that is named; a
    gateway or control plane of ours only where no engine is."""
    named = [part.engine for part in parts if part.engine is not None]
    counted = Counter(each.name for each in named if each.name not in OUR_OWN.values())
    counted = counted or Counter(each.name for each in named)
    if not counted:
        return None
    name = max(counted, key=lambda each: counted[each])
    versions = [each.version for each in named if each.name == name and each.version]
    return EngineName(name=name, version=versions[-1] if versions else None)


def _numbered_on(parts: Sequence[Part]) -> tuple[LogEvent, ...]:
    events: list[LogEvent] = []
    before = 0
    for part in parts:
        events += (replace(event, index=event.index + before) for event in part.events)
        before += _num_lines(part)
    return tuple(events)


def _merged(every: Iterable[Series]) -> Iterator[Series]:
    """Series that several parts have under the same name and labels are one where they follow each
    other, as a log and the older one it was rotated to. Where they overlap in time, they are of
    several replicas, and are told apart by their places."""
    same: dict[tuple[Signal, Origin, frozenset[tuple[str, str]]], list[Series]] = {}
    for series in every:
        anywhere = replace(series.origin, place="")
        key = (series.signal, anywhere, frozenset(series.labels.items()))
        same.setdefault(key, []).append(series)
    for found in same.values():
        found.sort(key=lambda series: series.first.at)
        if len({series.origin.place for series in found}) < len(found):
            yield from found
        elif any(one.last.at > other.first.at for one, other in itertools.pairwise(found)):
            for series in found:
                yield replace(series, labels={**series.labels, "replica": series.origin.place})
        else:
            readings = itertools.chain.from_iterable(series.readings for series in found)
            yield replace(found[-1], readings=tuple(readings))


def _each_signal_once(found: Iterable[Series]) -> tuple[tuple[Series, ...], tuple[Doubt, ...]]:
    by_signal: dict[Signal, dict[SourceKind, list[Series]]] = {}
    for series in found:
        kinds = by_signal.setdefault(series.signal, {})
        kinds.setdefault(series.origin.kind, []).append(series)
    kept: list[Series] = []
    doubts: list[Doubt] = []
    for kinds in by_signal.values():
        best = _best(kinds)
        kept += kinds[best]
        for other in kinds.keys() - {best}:
            doubts += _disagreement(kinds[best], kinds[other])
    return tuple(kept), tuple(doubts)


_Found = TypeVar("_Found", Series, HistogramSeries)


def _best(kinds: Mapping[SourceKind, Sequence[_Found]]) -> SourceKind:
    """What saw most of a signal."""
    return max(
        kinds,
        key=lambda kind: (
            len({each.labels.get(_REPLICA) for each in kinds[kind]}),
            _moments(kinds[kind]),
            -_SURER_FIRST.index(kind),
        ),
    )


def _called_alike(found: Sequence[Series]) -> Iterator[Series]:
    """Where pages are of one replica, and logs of one that is called otherwise, it is the same."""
    exported, logged = (
        {
            each.labels[_REPLICA]
            for each in found
            if each.origin.kind in of and _REPLICA in each.labels
        }
        for of in (_EXPORTED, (SourceKind.LOG,))
    )
    if len(exported) != 1 or len(logged) != 1:
        yield from found
        return
    (name,) = exported
    for each in found:
        is_logged = each.origin.kind is SourceKind.LOG and _REPLICA in each.labels
        yield replace(each, labels={**each.labels, _REPLICA: name}) if is_logged else each


_REPLICA = "replica"
_EXPORTED = (SourceKind.METRICS, SourceKind.PROMETHEUS)


def _moments(found: Iterable[Series | HistogramSeries]) -> int:
    return max(len(series.readings) for series in found)


def _disagreement(kept: Sequence[Series], other: Sequence[Series]) -> Iterable[Doubt]:
    """Where each is one series, and they were read within a second of each other."""
    if len(kept) != 1 or len(other) != 1:
        return
    for reading in other[0].readings:
        near = kept[0].at(reading.at + _SAME_MOMENT_SECONDS)
        if near is None or reading.at - near.at > _SAME_MOMENT_SECONDS:
            continue
        if abs(near.value - reading.value) > _SAME_SHARE * max(
            abs(near.value), abs(reading.value), 1.0
        ):
            yield Doubt(
                kind=DoubtKind.DUPLICATE,
                name=other[0].origin.name,
                what=f"{other[0].origin.name} says {reading.raw} where {kept[0].origin.name} "
                f"says {near.raw}; the latter is used",
                at=reading.at,
            )
            return


_SAME_MOMENT_SECONDS = 1.0
"""Engines round the times of log lines to seconds."""
_SAME_SHARE = 0.02
"""Logs round percentages to a tenth, and a batch changes by a request within the second."""


def _each_histogram_once(every: Iterable[HistogramSeries]) -> tuple[HistogramSeries, ...]:
    by_signal: dict[Signal, dict[SourceKind, list[HistogramSeries]]] = {}
    for histogram in every:
        kinds = by_signal.setdefault(histogram.signal, {})
        kinds.setdefault(histogram.origin.kind, []).append(histogram)
    return tuple(histogram for kinds in by_signal.values() for histogram in kinds[_best(kinds)])

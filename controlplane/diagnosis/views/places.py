"""Each replica or rank by itself."""

from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.looks import Look, surest
from controlplane.diagnosis.reading import HistogramSeries, Series
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_LABELS = ("replica", "engine")


def each_place(window: Window) -> Iterator[tuple[str, Window]]:
    """Its name, and a window with its series alone; nothing where there are not two. Facts, events
    and changes stay: nobody tells of which place they are."""
    yield from window.once(each_place, lambda: tuple(_each_place(window)))


def _each_place(window: Window) -> Iterator[tuple[str, Window]]:
    for label in _LABELS:
        series: dict[str, list[Series]] = {}
        for each in window.series:
            if label in each.labels:
                series.setdefault(each.labels[label], []).append(each)
        if len(series) < 2:
            continue
        histograms: dict[str, list[HistogramSeries]] = {}
        for shown in window.histograms:
            histograms.setdefault(shown.labels.get(label, ""), []).append(shown)
        for place, own in series.items():
            yield (
                place,
                replace(window, series=tuple(own), histograms=tuple(histograms.get(place, ()))),
            )
        return


def each_by_its_series(window: Window) -> Iterator[tuple[str, Window]]:
    """As `each_place`, without what may be of another place."""
    yield from window.once(each_by_its_series, lambda: tuple(_by_series(window)))


def _by_series(window: Window) -> Iterator[tuple[str, Window]]:
    for place, part in each_place(window):
        yield place, replace(part, facts=(), events=(), lines=(), changes=())


def with_places(
    whole: Verdict | None,
    places: Iterator[tuple[str, Window]],
    judge: Look,
) -> Verdict | None:
    """What is said of the whole, or of one place where the sums over all hide it or where most of
    the others are well: the surest, with the place in its detail."""
    found: list[Verdict] = []
    num_places = 0
    for place, part in places:
        num_places += 1
        verdict = judge(part)
        if verdict is not None:
            detail = f"at {place}" + (f": {verdict.detail}" if verdict.detail else "")
            found.append(replace(verdict, detail=detail))
    here = surest(found)
    if here is None:
        return whole
    if whole is None or here.confidence > whole.confidence:
        return here
    num_ill = sum(verdict.confidence >= Confidence.LIKELY for verdict in found)
    is_one = here.confidence is whole.confidence and 0 < 2 * num_ill <= num_places
    return here if is_one else whole

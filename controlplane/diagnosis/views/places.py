"""Each replica or rank by itself."""

from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.window import Window

_LABELS = ("replica", "engine")


def each_place(window: Window) -> Iterator[tuple[str, Window]]:
    """Its name, and a window with its series alone; nothing where there are not two. Facts, events
    and changes stay: nobody tells of which place they are."""
    for label in _LABELS:
        places = dict.fromkeys(
            series.labels[label] for series in window.series if label in series.labels
        )
        if len(places) < 2:
            continue
        for place in places:
            yield (
                place,
                replace(
                    window,
                    series=tuple(s for s in window.series if s.labels.get(label) == place),
                    histograms=tuple(h for h in window.histograms if h.labels.get(label) == place),
                ),
            )
        return

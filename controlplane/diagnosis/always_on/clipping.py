"""The newest part of a window: as a stretch of it (`stretch`), with all that logs say."""

from dataclasses import replace

from controlplane.diagnosis.stretch import states_between
from controlplane.diagnosis.window import Window


def newest_part(window: Window, seconds: float) -> Window:
    """The same, with what was read in its last `seconds`. Facts, changes and what logs say stay:
    they hold until another is told. A histogram keeps the state that it had at the beginning."""
    start = max(window.start, window.end - seconds)
    series = (each.between(start, window.end) for each in window.series)
    return replace(
        window,
        start=start,
        series=tuple(each for each in series if each is not None),
        histograms=tuple(
            clipped
            for each in window.histograms
            if (clipped := states_between(each, start, window.end)) is not None
        ),
        doubts=tuple(each for each in window.doubts if each.at is None or each.at >= start),
    )

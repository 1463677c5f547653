"""How a mean was reckoned of a histogram, so that whoever doubts it can do the same."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.reading import HistogramSeries


def reckoned(histogram: HistogramSeries) -> str:
    """`(16070 - 8700) / (1454 - 1272)`, of sums and counts as they stood; of a histogram that was
    read once, or began anew, `3999 / 190410`."""
    first, last = histogram.readings[0], histogram.readings[-1]
    observed = histogram.observed
    is_difference = first is not last and observed.count == last.count - first.count
    if not is_difference or first.count == 0:
        return f"{number(observed.sum)} / {number(observed.count)}"
    return (
        f"({number(last.sum)} - {number(first.sum)}) / "
        f"({number(last.count)} - {number(first.count)})"
    )

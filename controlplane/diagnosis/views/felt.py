"""What users feel, by the histograms of the engine and of the gateways: no gauge shows it."""

from collections.abc import Iterator

from controlplane.diagnosis.reading import HistogramSeries
from controlplane.diagnosis.views.course_parts import observed_parts, share_above
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_FIRST = (Signal.TTFT, Signal.GATEWAY_TTFT)
_NEXT = (Signal.ITL, Signal.TPOT, Signal.GATEWAY_ITL, Signal.GATEWAY_TPOT)
_WHOLE = (Signal.E2E, Signal.GATEWAY_E2E)

_FEW = 10.0
"""Observations: the mean of fewer is of this prompt or that."""
_ENOUGH = 50.0
"""Observations of which one in a hundred is a tail."""
FIRST_SECONDS = 3.0
"""Until the first token, on average: who chats has looked away by then."""
_READ_PER_SECOND = 2000.0
"""Prompt tokens: a long prompt may take as long as a busy device reads it."""
NEXT_SECONDS = 0.25
"""Between tokens, on average: people read five words a second."""
_EACH_SECONDS = 0.5
"""Of a whole answer by its tokens, its first included."""
_LATE_SECONDS = 5.0
_LATE_TIMES = 20.0
_LATE_SHARE = 0.01
"""Of first tokens, later than twenty times the median: nobody's prompts differ so much by
themselves, and the median of long prompts is long."""
_GAP_SECONDS = 1.0
_GAP_SHARE = 0.02
"""Of the gaps between tokens: every fiftieth token, so several in each answer."""
_GROWN = 2.0
_QUICK = {**dict.fromkeys(_FIRST, 1.0), **dict.fromkeys(_NEXT, 0.1)}
"""Seconds within which nobody minds that it was half as long before."""


def felt(window: Window) -> Iterator[str]:
    """Each in a sentence with its figures; nothing where all is quick, or nobody measures."""
    for signal in (*_FIRST, *_NEXT, *_WHOLE):
        histogram = window.find_histogram(signal)
        if histogram is not None and histogram.observed.count >= _FEW:
            yield from _long(window, histogram)
            yield from _tail(histogram)
            yield from _longer(window, histogram)


def measures_gaps(window: Window) -> bool:
    """Between tokens, of enough of them that a tail would be seen."""
    found = window.find_histogram(Signal.ITL)
    return found is not None and found.observed.count >= _ENOUGH


def _long(window: Window, histogram: HistogramSeries) -> Iterator[str]:
    """On average."""
    mean = histogram.mean
    bound = _bound(window, histogram)
    if mean is not None and bound is not None and mean > bound:
        yield f"{histogram.origin.name}: {mean:.3g} s on average"


def _bound(window: Window, histogram: HistogramSeries) -> float | None:
    requests = histogram.observed.count
    if histogram.signal in _FIRST:
        prompt = _of_each(window, Signal.PROMPT_TOKENS, requests)
        return max(FIRST_SECONDS, (prompt or 0.0) / _READ_PER_SECOND)
    if histogram.signal in _NEXT:
        return NEXT_SECONDS
    output = _of_each(window, Signal.GENERATION_TOKENS, requests)
    return None if output is None else max(FIRST_SECONDS, _EACH_SECONDS * output)


def _of_each(window: Window, signal: Signal, requests: float) -> float | None:
    """Tokens of a request, where they are counted beside."""
    counted = window.find(signal)
    increase = None if counted is None else counted.increase
    return None if increase is None else increase / requests


def _tail(histogram: HistogramSeries) -> Iterator[str]:
    """Some that come very late, among many that come at once."""
    middle = histogram.quantile(0.5)
    if middle is None or histogram.observed.count < _ENOUGH or histogram.signal in _WHOLE:
        return
    if histogram.signal in _FIRST:
        bound, least = max(_LATE_SECONDS, _LATE_TIMES * middle), _LATE_SHARE
    else:
        bound, least = _GAP_SECONDS, _GAP_SHARE
    share = share_above(histogram.observed, bound)
    if share >= least:
        yield f"{histogram.origin.name}: {share * 100:.2g} % above {bound:.3g} s"


def _longer(window: Window, histogram: HistogramSeries) -> Iterator[str]:
    """Than at the beginning of the window."""
    parts = observed_parts(histogram, window)
    quick = _QUICK.get(histogram.signal)
    if parts is None or quick is None or min(part.count for part in parts) < _FEW:
        return
    before, after = (part.sum / part.count for part in parts)
    if after > quick and after >= _GROWN * before:
        yield f"{histogram.origin.name}: {before:.3g} -> {after:.3g} s on average"

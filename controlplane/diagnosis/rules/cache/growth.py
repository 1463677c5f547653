"""How much longer requests are than before, by whatever tells it."""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.reading import HistogramReading, HistogramSeries
from controlplane.diagnosis.views.activity import FULL, Activity
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.course_parts import rates
from dataplane.engine_metrics.signal import Signal, Unit

GROWN = 1.5
"""Half as long again: fits two where three fitted."""
LEAST_SECONDS = 60.0
"""Shorter, and it is one batch that gets older."""
_OTHER_REQUESTS_SECONDS = 600.0
"""After which it is not the same requests that got older."""
NEARLY_FULL = 0.75
_LENGTHS = (
    r"^(?=.*\b(prompt|context|input|output|request|conversation|history)\w*\b)"
    r"(?=.*\b(tokens?|len|length)\b)(?!.*\b(max|limit|longest|largest|batched|per s|chunk)\b)"
)
_RATES = (Unit.TOKENS_PER_SECOND, Unit.PER_SECOND, Unit.SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Tokens of a request, before and now."""

    before: float
    now: float
    says: str
    """How it is known."""
    is_measured: bool = True
    """False where it is worked out from the cache and the batch."""
    is_of_requests: bool = True
    """False where it is what the cache holds for each that runs."""

    @property
    def factor(self) -> float:
        """How many times as long."""
        return self.now / self.before


def growth_of(now: Activity) -> Growth | None:
    for find in (_by_told, _by_histogram, _by_counters, _by_contexts, _by_cache):
        growth = find(now)
        if growth is not None and growth.factor >= GROWN:
            return growth
    return None


def _by_told(now: Activity) -> Growth | None:
    found = [
        each
        for each in contrasts(now.window, _LENGTHS)
        if each.base_value > 0 and each.other.unit not in _RATES
    ]
    most = max(found, key=lambda contrast: contrast.factor, default=None)
    if most is None or most.factor < GROWN:
        return None
    return Growth(before=most.base_value, now=most.value, says=most.says)


def _by_histogram(now: Activity) -> Growth | None:
    """Prompts, or prompts and outputs, of the second half of the window against the first; or of
    the window against all before."""
    for signal in (Signal.PROMPT_LENGTH, Signal.OUTPUT_LENGTH):
        histogram = now.window.find_histogram(signal)
        means = None if histogram is None else _two_means(histogram)
        if histogram is None or means is None or means[1] < GROWN * means[0]:
            continue
        return Growth(
            before=means[0],
            now=means[1],
            says=f"{histogram.origin.name}: mean {number(round(means[0]))} -> "
            f"{number(round(means[1]))} tokens",
        )
    return None


def _two_means(histogram: HistogramSeries) -> tuple[float, float] | None:
    readings = histogram.readings
    if len(readings) < 2:
        return None
    if len(readings) == 2:
        before, after = _mean(None, readings[0]), _mean(readings[0], readings[1])
    else:
        middle = readings[len(readings) // 2]
        before, after = _mean(readings[0], middle), _mean(middle, readings[-1])
    return None if not before or after is None else (before, after)


def _mean(start: HistogramReading | None, end: HistogramReading) -> float | None:
    count = end.count - (0.0 if start is None else start.count)
    total = end.sum - (0.0 if start is None else start.sum)
    return total / count if count > 0 else None


def _by_counters(now: Activity) -> Growth | None:
    """Tokens of each answer: both counters, in the first and in the last third."""
    made = rates(now.window.find(Signal.GENERATION_TOKENS), now.window)
    ended = rates(now.window.find(Signal.FINISHED), now.window)
    ended = ended or rates(now.window.find(Signal.GATEWAY_ENDED), now.window)
    if made is None or ended is None or ended.before <= 0 or ended.after <= 0:
        return None
    before, after = made.before / ended.before, made.after / ended.after
    if before <= 0:
        return None
    return Growth(
        before=before,
        now=after,
        says=f"tokens for each answer: {number(round(before))} -> {number(round(after))}",
    )


def _by_contexts(now: Activity) -> Growth | None:
    """Tokens in the contexts of the batch, for each that runs."""
    contexts, running = now.window.find(Signal.CONTEXT_TOKENS), now.running
    if contexts is None or running is None or len(contexts.readings) < 2:
        return None
    if contexts.span_seconds < LEAST_SECONDS:
        return None
    before, after = early(contexts) / max(early(running), 1), late(contexts) / max(late(running), 1)
    if before <= 0:
        return None
    return Growth(
        before=before,
        now=after,
        says=f"{contexts.origin.name} for each running: {number(round(before))} -> "
        f"{number(round(after))}",
        is_of_requests=False,
    )


def _by_cache(now: Activity) -> Growth | None:
    """Where the cache is full at both ends, fewer in it are longer."""
    kv, running = now.kv, now.running
    if kv is None or running is None or len(kv.readings) < 2 or kv.span_seconds < LEAST_SECONDS:
        return None
    if late(running) <= 0 or early(running) <= 0 or late(kv) < NEARLY_FULL * FULL:
        return None
    if early(kv) < NEARLY_FULL * FULL and kv.span_seconds < _OTHER_REQUESTS_SECONDS:
        return None
    before, after = early(kv) / early(running), late(kv) / late(running)
    return Growth(
        before=before,
        now=after,
        says=f"{running.origin.name} {running.first.raw} -> {running.last.raw} in the same cache "
        f"({kv.origin.name} {kv.first.raw} -> {kv.last.raw})",
        is_measured=False,
        is_of_requests=False,
    )

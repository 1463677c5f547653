"""Gauges that stay the same to the digit while counters of the same page go on."""

from controlplane.diagnosis.citing import moved, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import FULL
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.rounding import is_rounded
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 20.0
_LEAST_READINGS = 8
_TOKENS = 500.0
"""Selected meanwhile: some sequence took a block, or ended."""
_CHANGES = 5
"""Other values of what is in flight meanwhile."""
_SCRAPED = (SourceKind.METRICS, SourceKind.PROMETHEUS)


def judge(window: Window) -> Verdict | None:
    """LIKELY for a share of blocks, or for batches while what is in flight changes."""
    argument = Argument(window)
    found = _stuck_shares(argument, window) or _stuck_batches(argument, window)
    if not found:
        return None
    argument.against("engine.hung: tokens are counted on the same page")
    argument.against("a batch at its limit keeps its number of requests, and not its blocks")
    return argument.verdict(Confidence.LIKELY)


def _stuck_shares(argument: Argument, window: Window) -> bool:
    found = False
    for share in window.all_series(Signal.KV_USAGE):
        tail = _tail(share)
        tokens = None if tail is None else _tokens(window, share, tail)
        if tail is None or tokens is None or not 0 < tail.last.value < FULL:
            continue  # where no block is left, each that is freed is taken at once
        if is_rounded(share.origin.name) and not _stand_exactly(window, share, tail):
            continue
        if (tokens.increase or 0.0) >= _TOKENS:
            argument.says(f"{_where(share)}{stands(tail)}: to the digit")
            argument.says(f"{_where(share)}{moved(tokens)}: blocks are taken meanwhile")
            found = True
    return found


def _stand_exactly(window: Window, beside: Series, tail: Series) -> bool:
    """So many tokens are in it all the time; a share of two digits stays where they change."""
    return any(
        part is not None and len(part.readings) >= _LEAST_READINGS and part.is_constant
        for each in window.all_series(Signal.CONTEXT_TOKENS)
        if each.labels == beside.labels and each.origin.place == beside.origin.place
        for part in (each.between(tail.first.at, tail.last.at),)
    )


def _stuck_batches(argument: Argument, window: Window) -> bool:
    """All of them, below the most that they ran, while the gateway sends more and fewer."""
    batches = [each for each in window.all_series(Signal.RUNNING) if each.origin.kind in _SCRAPED]
    tails = [tail for each in batches if (tail := _tail(each)) is not None]
    if not tails or len(tails) < len(batches):
        return False
    if any(tail.last.value >= batch.max for tail, batch in zip(tails, batches, strict=True)):
        return False
    start = max(tail.first.at for tail in tails)
    sent = window.find(Signal.GATEWAY_IN_FLIGHT)
    part = None if sent is None else sent.between(start, window.end)
    if part is None or len(set(part.values)) < _CHANGES:
        return False
    tokens = [_tokens(window, each, tail) for each, tail in zip(batches, tails, strict=True)]
    if not any(each is not None and each.increase for each in tokens):
        return False
    for batch, tail in zip(batches, tails, strict=True):
        argument.says(f"{_where(batch)}{stands(tail)}: to the digit")
    argument.series(part, "it changes meanwhile")
    return True


def _tail(series: Series) -> Series | None:
    """Its newest readings without another value; None where they are too few."""
    kept = 1
    for reading in reversed(series.readings[:-1]):
        if reading.value != series.last.value:
            break
        kept += 1
    tail = series.between(series.readings[-kept].at, series.last.at)
    if tail is None or kept < _LEAST_READINGS or tail.span_seconds < _LEAST_SECONDS:
        return None
    return tail


def _tokens(window: Window, beside: Series, tail: Series) -> Series | None:
    """Counted on the same page in that time."""
    for each in window.all_series(Signal.GENERATION_TOKENS):
        if each.labels == beside.labels and each.origin.place == beside.origin.place:
            return each.between(tail.first.at, tail.last.at)
    return None


def _where(series: Series) -> str:
    replica = series.labels.get("replica")
    return f"{replica}: " if replica else ""


STUCK_GAUGES = Rule(
    id="telemetry-stuck-gauges",
    mechanism=Mechanism.TELEMETRY_STALE,
    judge=judge,
    needs=("gauges and token counters over time",),
    told_apart="From an engine that hangs by tokens that are counted on the same page, from a "
    "batch at its limit by what is in flight, which changes.",
    remedy="Do not route or scale by these gauges; restart the exporter, or the process that sets "
    "them, and watch whether they move.",
    hides="A restart sets them once more and hides what stopped setting them.",
    explains=frozenset({Mechanism.ROUTING_SKEW, Mechanism.BATCH_UNDERFILLED}),
)

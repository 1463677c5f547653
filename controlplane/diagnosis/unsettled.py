"""Where no rule sees anything: what was seen all the same, and what to look at next.

Pure. What is asked for is what the window lacks, in the order in which it usually settles things.
"""

from collections.abc import Iterator

from controlplane.diagnosis.citing import course, number, says, seconds
from controlplane.diagnosis.reading import HistogramSeries
from controlplane.diagnosis.views.ending import end_of
from controlplane.diagnosis.views.restarts import restart_of
from controlplane.diagnosis.views.server_pages import pages_of_each
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_TELLING = (
    Signal.RUNNING,
    Signal.WAITING,
    Signal.KV_USAGE,
    Signal.GENERATION_RATE,
    Signal.GENERATION_TOKENS,
    Signal.PREEMPTIONS,
    Signal.DEVICE_MEMORY_USED,
    Signal.GATEWAY_IN_FLIGHT,
    Signal.GATEWAY_QUEUED,
)
_LATENCIES = (
    *(Signal.TTFT, Signal.ITL, Signal.TPOT, Signal.E2E, Signal.QUEUE_TIME),
    *(Signal.GATEWAY_TTFT, Signal.GATEWAY_TPOT, Signal.GATEWAY_E2E, Signal.GATEWAY_QUEUE_TIME),
)
_MOST_SEEN = 12
_MOST_ASKED = 6
_A_WHILE_SECONDS = 20.0
"""Less is a moment: nothing can be said to stand still, grow or drain."""


def seen(window: Window) -> tuple[str, ...]:
    """What stood there: that it ended, then the changes."""
    return tuple(_seen(window))[:_MOST_SEEN]


def asked(window: Window) -> tuple[str, ...]:
    """What would help most."""
    return tuple(dict.fromkeys(_asked(window)))[:_MOST_ASKED]


def _seen(window: Window) -> Iterator[str]:
    end = end_of(window)
    if end is not None:
        yield end.says
    restart = restart_of(window)
    if restart is not None:
        yield restart.says
    for change in window.changes:
        yield f"{change.what}, {seconds(window.end - change.at)} s before the end of what was seen"
    for signal in _TELLING:
        series = window.find(signal)
        if series is not None:
            yield course(series)
    for histogram in _latencies(window):
        mean = histogram.mean
        if mean is not None:
            count = number(histogram.observed.count)
            yield f"{histogram.origin.name}: mean {number(mean)} s of {count}"
    for fact in window.facts:
        yield says(fact)


def _asked(window: Window) -> Iterator[str]:
    if window.changes:
        yield from _before(window)
    if not window.exported_names and (silent := pages_of_each(window)):
        for name, pages in silent.items():
            at = f"{name}: " if name else ""
            for need in _of_silence(pages.connection.raw, pages.metrics.raw):
                yield f"{at}{need}"
        return
    own = "" if window.engine is None else window.engine.name
    if own.startswith("pilothouse "):
        yield (
            f"the metrics of replicas: this is the {own.removeprefix('pilothouse ')} of Pilothouse "
            "and no engine; `pilothouse get replicas -o wide` shows where theirs are, and "
            "`pilothouse incidents` what is known already"
        )
        return
    if not window.series and not window.histograms and not window.lines:
        yield "the engine's metrics, twice, a minute apart"
        yield "the engine's log around that time"
        return
    if window.end - window.start < _A_WHILE_SECONDS:
        yield "the same figures a minute later: one moment tells no course"
    if window.find(Signal.RUNNING) is None:
        yield "requests running and waiting over time"
    if window.fact("in flight") is None and window.find(Signal.GATEWAY_IN_FLIGHT) is None:
        yield "requests in flight at the gateway"
    if not window.lines:
        yield "the engine's log around that time"
    if not any(_latencies(window)):
        yield "what users see: TTFT and time between tokens, now and before"
    yield "a one-token probe: whether it answers, and in what time"


def _of_silence(connection: str, answer: str) -> Iterator[str]:
    """There is an address and no metrics page (`sources.live.silence`)."""
    if connection.startswith("refused"):
        yield "whether its process runs, and at which port it listens (ss -ltnp, kubectl get pods)"
        yield "why it ended or has not begun: the end of its log (`pilothouse diagnose engine.log`)"
        yield "how it ended: its exit code, and the kernel's log around that time"
        return
    if not connection.startswith("accepted"):
        yield "whether the host is up and may be reached from here"
        return
    status = answer[:3]
    if status in ("401", "403"):
        yield "the key that it wants to see (--engine-key-file)"
    elif status.startswith("5"):
        yield f"why it fails with {status}: the end of its log (`pilothouse diagnose engine.log`)"
    yield "whether it is the engine itself that answers there, and no proxy or other server"
    yield "where its metrics are: whether they are switched on, and at which port and path"


def _before(window: Window) -> Iterator[str]:
    """A change was told: what was, before it."""
    for histogram in _latencies(window):
        name = histogram.signal.value.upper()
        yield f"{name} measured at the gateway, before and after the change"
        yield f"the same histogram ({histogram.origin.name}) from before the change"
        break
    if window.find(Signal.KV_USAGE) is not None or window.find(Signal.KV_BLOCKS) is not None:
        yield "KV cache blocks and memory before and after the change"
    if any(fact.unit is Unit.BYTES for fact in window.facts):
        yield "which process and allocator pool holds the memory, reserved against allocated bytes"


def _latencies(window: Window) -> Iterator[HistogramSeries]:
    for signal in _LATENCIES:
        found = window.find_histogram(signal)
        if found is not None:
            yield found

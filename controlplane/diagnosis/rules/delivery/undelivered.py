"""Answers that engines finished and clients do not read."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import mean_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 20.0
_MANY = 8.0
"""Answers that are done and not delivered, on average: a few are always on their way."""
_SHARE = 0.5
"""Of what is in flight."""


def judge(window: Window) -> Verdict | None:
    """LIKELY where much more is undelivered than is in flight, for longer than answers take."""
    undelivered = window.find(Signal.GATEWAY_UNDELIVERED)
    in_flight = window.find(Signal.GATEWAY_IN_FLIGHT)
    if undelivered is None or in_flight is None:
        return None
    start = window.end - _LEAST_SECONDS
    held, active = mean_of(undelivered, start, window.end), mean_of(in_flight, start, window.end)
    if held is None or active is None or undelivered.span_seconds < _LEAST_SECONDS:
        return None
    leaked = window.find(Signal.LEAKED)
    if leaked is not None:  # what is never released is not delivered either
        held -= leaked.last.value
    if held - active < max(_MANY, _SHARE * active):
        return None
    argument = Argument(window)
    argument.series(undelivered, "not read to their end by their clients")
    argument.series(in_flight, "still at work")
    argument.says(f"{held - active:.0f} answers are done and not delivered")
    argument.against("queue.overload: what is in flight does not grow")
    argument.against("delivery.front_end_bound: it would hold all answers up, not some for long")
    argument.need("bytes that clients read, by client")
    return argument.verdict(Confidence.LIKELY)


UNDELIVERED = Rule(
    id="fleet-undelivered",
    mechanism=Mechanism.DELIVERY_SLOW_CLIENT,
    judge=judge,
    needs=("requests in flight at the gateway", "requests not yet delivered"),
    told_apart="From overload by engines that are done, from a front end that is at its limit by "
    "answers that others get at once.",
    remedy="Bound how much of an answer is kept for a client that does not read, pause or end "
    "those beyond it, and look at what these clients have in common.",
    hides="Larger buffers let engines finish earlier and hold the memory in the gateway instead.",
)

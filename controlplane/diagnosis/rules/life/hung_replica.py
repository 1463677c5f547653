"""One replica of several whose steps do not end."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import Replica, fleet_of
from controlplane.diagnosis.views.standstill import LEAST_SECONDS, cite, standstill_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_TIMED_OUT = re.compile(r"no answer|time ?d? ?out|timeout", re.IGNORECASE)
"""A process that died refuses connections; one that hangs takes them and says nothing."""


def judge_replica(window: Window) -> Verdict | None:
    """LIKELY where what it ran stays, nothing is counted, and nothing is answered by it."""
    argument = Argument(window)
    silent = _silent(window)
    if silent is not None:
        replica, reason = silent
        argument.fact(reason, "it takes connections and says nothing")
        running = replica.find(Signal.RUNNING)
        if running is not None:
            argument.says(f"{replica.name}: {running.origin.name} {running.last.raw} at the last")
        argument.need("a one-token probe", "the engine's log")
        argument.against("telemetry.stale: nothing at all is answered")
        return argument.verdict(Confidence.LIKELY, detail=replica.name)
    found = standstill_of(window)
    if found is None or found.is_working is not False or not found.holds_work:
        return None
    cite(argument, found)
    argument.against("telemetry.stale: the others account for all answers")
    argument.need("a one-token probe", "the engine's log")
    return argument.verdict(
        Confidence.LIKELY, detail=", ".join(each.name for each in found.replicas)
    )


def _silent(window: Window) -> tuple[Replica, Fact] | None:
    """A replica that worked and whose scrapes time out, to the end of the window."""
    fleet = fleet_of(window)
    by_name = {} if fleet is None else {each.name: each for each in fleet.replicas}
    for reason in window.facts_of("scrape failure"):
        replica = by_name.get(reason.part or "")
        if replica is None or not _TIMED_OUT.search(reason.raw):
            continue
        last = max(each.last.at for each in replica.series)
        if window.end - last >= LEAST_SECONDS and any(each.increase for each in replica.counters):
            return replica, reason
    return None

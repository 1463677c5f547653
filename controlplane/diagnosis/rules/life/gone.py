"""engine.gone: a process that answered is not there any more, and its port refuses connections.

Only a look that calls by itself can tell: a line of a log, or somebody's word, may be of a process
that was started again since.
"""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.gone_replicas import GoneReplica, gone_replicas
from controlplane.diagnosis.views.told import told
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LAST_WORK = (Signal.RUNNING, Signal.WAITING)


def _judge(window: Window) -> Verdict | None:
    """CERTAIN where three calls over 20 s were refused, and one before them was answered; LIKELY
    from two calls over 10 s on."""
    gone = gone_replicas(window)
    if not gone:
        return None
    argument = Argument(window)
    for each in gone:
        _cite(argument, window, each)
    argument.fact(_met_by_gateways(window, gone), "gateways do not reach it either")
    argument.against("engine.hung: a frozen process takes connections, and says nothing")
    argument.against("a network that is lost: no call would be refused, none would get through")
    argument.against("a restart: it would listen again by now")
    argument.need(
        "how its process ended: its exit code, the kernel's log, and who stopped it",
        "the end of its log (`pilothouse diagnose engine.log`)",
        "whether it listens at another port (ss -ltnp)",
    )
    is_sure = any(each.is_sure for each in gone)
    names = ", ".join(each.name for each in gone if each.name)
    return argument.verdict(Confidence.CERTAIN if is_sure else Confidence.LIKELY, detail=names)


def _cite(argument: Argument, window: Window, gone: GoneReplica) -> None:
    seconds = number(gone.since.value or 0.0)
    argument.fact(
        gone.since, f"it answered before, and its port refused every call for {seconds} s"
    )
    argument.fact(gone.looks)
    whys = window.facts_of("scrape failure")
    argument.fact(next((each for each in whys if not gone.name or each.part == gone.name), None))
    for signal in _LAST_WORK:
        for series in window.all_series(signal):
            if series.labels.get("replica", "") == gone.name and series.last.value > 0:
                argument.says(f"at the last: {series.origin.name} {series.last.raw}")


def _met_by_gateways(window: Window, gone: tuple[GoneReplica, ...]) -> Fact | None:
    fact = told(window, r"^replicas unreachable$")
    names = [each.name for each in gone if each.name]
    if fact is None or not any(re.search(rf"\b{re.escape(name)}\b", fact.raw) for name in names):
        return None
    return fact


GONE = Rule(
    id="engine-gone",
    mechanism=Mechanism.ENGINE_GONE,
    judge=_judge,
    needs=("what its port answers to calls, again and again",),
    told_apart=(
        "From engine.hung by a port that refuses: a frozen process takes connections. From a lost "
        "network by the refusal, which only its host can send. From a restart by calls that are "
        "refused for longer than that takes."
    ),
    remedy=(
        "Keep the end of its log, its exit code and the kernel's log; then start it again, and see "
        "that whatever runs it (systemd, a container's policy) would have done so by itself."
    ),
    hides=(
        "A restart takes the exit code with it, rotates the log, and ends in the same way again "
        "where the cause was memory or a request that comes back."
    ),
    explains=frozenset(
        {
            # The others get what it would have done, and its page is not there.
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BLOCKED,
            Mechanism.QUEUE_RETRY_STORM,
            Mechanism.ROUTING_SKEW,
            Mechanism.TELEMETRY_STALE,
            Mechanism.TELEMETRY_MISSING,
        }
    ),
)

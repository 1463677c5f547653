"""What tells that callers left before their answers were whole."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told, told_all
from dataplane.engine_metrics.signal import Signal

GONE = (
    r"disconnect|abandon|cancel|abort|gave up|gone|timed out|timeouts|client left|clients left|ctrl"
    r"|hung up|closed by"
)
_NOT_GONE = r"^(finished|completed|answered|done)\b|timeout s$|limit|after"


def callers_gone(argument: Argument, now: Activity) -> bool:
    """Callers are known to have left before; what tells it is cited."""
    for which in told_all(now.window, r"queued (rids?|ids?)|orphan|zombie|owner"):
        argument.fact(which)
    fact = told(now.window, GONE, without=_NOT_GONE)
    aborted = now.window.find(Signal.ABORTED)
    if fact is None and aborted is not None and aborted.increase:
        argument.series(aborted, "callers that left")
        return True
    left = now.window.events_of(LogKind.CLIENT_GONE)
    if left:
        argument.says(f"{len(left)} callers left: {left[-1].line.strip()[:160]}")
    value = number_of(fact)
    if fact is not None and (value is None or value > 0):
        argument.says(
            ", ".join(f"{each.key} {each.raw}" for each in now.window.facts if each.key == fact.key)
        )
        return True
    return bool(left)

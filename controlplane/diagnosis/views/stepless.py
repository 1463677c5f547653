"""Replicas that have requests and end no step: in a long batch of a prompt, or in a hang that is
not sure yet. Beside them another one has most, whatever the routing does."""

from controlplane.diagnosis.views.fleet import Replica, fleet_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_STANDS_SECONDS = 10.0
"""Most steps are a hundred times shorter."""


def need_of_stepless(window: Window, top: str) -> str | None:
    """What would settle whether `top` has most for their sake; None where all others step on, or
    no engine counts its steps."""
    fleet = fleet_of(window)
    replicas = () if fleet is None else fleet.replicas
    still = [each.name for each in replicas if each.name != top and _is_stepless(each, window.end)]
    if not still:
        return None
    return f"whether {', '.join(still)} still works: no step ends while requests run there"


def _is_stepless(replica: Replica, end: float) -> bool:
    steps, running = replica.find(Signal.STEPS), replica.find(Signal.RUNNING)
    late = None if steps is None else steps.between(end - _STANDS_SECONDS, end)
    return late is not None and late.is_constant and running is not None and running.last.value > 0

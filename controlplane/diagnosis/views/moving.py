"""Whether work goes on since some moment, by what can be trusted most."""

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import from_on
from dataplane.engine_metrics.signal import Signal

WORK = (
    Signal.GENERATION_TOKENS,
    Signal.PROMPT_TOKENS,
    Signal.COMPUTED_PROMPT_TOKENS,
    Signal.STEPS,
    Signal.FINISHED,
)
"""Counters that work moves."""


def moves_since(now: Activity, start: float) -> bool | None:
    """By counters where there are any, since a rate may be as frozen as the rest, or from just
    before; None where nothing shows it."""
    counted = {
        signal: part.increase or 0.0
        for signal in WORK
        if (series := now.window.find(signal)) is not None
        and (part := from_on(series, start)) is not None
        and len(part.readings) > 1
    }
    if any(counted.values()):
        return True
    # That nothing ended does not say that nothing is computed.
    is_decided = bool(counted.keys() - {Signal.FINISHED})
    return False if is_decided else now.moves(start, now.window.end)

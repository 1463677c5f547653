"""What a router counts at its replicas, and nobody else does."""

from controlplane.diagnosis.citing import stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.standing import LEAST_SECONDS, cite_beside
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal


def counted_by_the_router_alone(
    argument: Argument, now: Activity, truth: Truth
) -> Confidence | None:
    """Its gauges stand above zero, to the digit, while its replicas run nothing or nobody waits."""
    still = [
        series
        for series in now.window.all_series(Signal.ROUTED_IN_FLIGHT)
        if series.is_constant and series.last.value > 0 and series.span_seconds >= LEAST_SECONDS
    ]
    is_idle = now.running is not None and now.running.last.value == 0
    if not still or truth.is_answered is False or truth.is_wanted:
        return None
    if not is_idle and truth.is_wanted is not False:
        return None
    for series in still:
        place = series.labels.get("replica")
        argument.says(f"{stands(series)}{f' ({place})' if place else ''}: to the digit")
    argument.series(now.running, "the replicas themselves run nothing" if is_idle else "")
    for sentence in truth.says:
        argument.says(sentence)
    cite_beside(argument, now.window)
    argument.against("release.leak: what a replica held would be in its own figures")
    argument.against("engine.hung: nobody waits")
    return Confidence.CERTAIN if is_idle and truth.is_wanted is False else Confidence.LIKELY

"""What a silence or maintenance would keep back, and what the last hour says of it. Pure."""

from collections.abc import Iterable

from controlplane.api.silence_views import CoveredPromise, SilencePlan, view_silence
from controlplane.api.slo_views import StandingView
from controlplane.slo.alert_windows import HOUR
from controlplane.slo.silences import Silence, SilenceScope


def create_plan(
    silence: Silence,
    standings: Iterable[StandingView],
    others: Iterable[Silence],
    now_unix_ns: int,
) -> SilencePlan:
    """`standings`: of every promise. `others`: those that are not over."""
    scope = silence.scope
    return SilencePlan(
        silence=view_silence(silence, now_unix_ns),
        promises=[
            _covered(each, scope)
            for each in standings
            if scope.is_about(each.deployment, each.request_class, each.objective)
        ],
        covers_other_alerts=scope.request_class is None and scope.objective is None,
        overlapping=[each.silence_id for each in others if _overlap(each, silence)],
    )


def _covered(standing: StandingView, scope: SilenceScope) -> CoveredPromise:
    hour = next(each for each in standing.burns if each.seconds == HOUR)
    severity = None if scope.severity is None else scope.severity.value
    return CoveredPromise(
        deployment=standing.deployment,
        request_class=standing.request_class,
        objective=standing.objective,
        state=standing.state,
        fires=[each.grade for each in standing.firing if severity in (None, each.severity)],
        num_judged=hour.num_judged,
        num_bad=hour.num_judged - hour.num_good,
        burn_rate=hour.burn_rate,
    )


def _overlap(one: Silence, other: Silence) -> bool:
    are_together = (
        one.from_unix_ns < other.over_at_unix_ns and other.from_unix_ns < one.over_at_unix_ns
    )
    first, second = one.scope, other.scope
    return are_together and all(
        a is None or b is None or a == b
        for a, b in (
            (first.deployment, second.deployment),
            (first.request_class, second.request_class),
            (first.objective, second.objective),
            (first.severity, second.severity),
        )
    )

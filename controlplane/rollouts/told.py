"""What was measured as it is kept and shown: plain values, that JSON holds."""

from dataclasses import asdict
from typing import Any

from controlplane.rollouts.analysis.comparison import Comparison
from controlplane.rollouts.analysis.difference import Interval
from controlplane.rollouts.analysis.shadow import ShadowSeen
from controlplane.rollouts.analysis.standing import Standing
from dataplane.arm import Arm


def tell(comparison: Comparison) -> dict[str, Any]:
    """Of shares the difference, candidate less stable; of anything else by what part the
    candidate's is larger. `apart` is None while too little is known."""
    measure = comparison.measure
    return {
        "measure": measure.name,
        "says": measure.says,
        "more_is_worse": measure.more_is_worse,
        "is_share": measure.is_share,
        "margin": measure.margin,
        "num_stable": comparison.num_stable,
        "num_candidate": comparison.num_candidate,
        "num_unmatched": comparison.num_unmatched,
        "applies": comparison.applies,
        "is_good": comparison.is_good,
        "apart": _interval(comparison.shown),
    }


def tell_standing(standing: Standing) -> dict[str, Any]:
    """Burn rates are None where no request of the arm was judged by that promise."""
    promise = standing.promise
    return {
        "contract_revision": promise.contract_revision,
        "request_class": promise.request_class,
        "objective": promise.objective,
        "at_most_seconds": promise.at_most_seconds,
        "target": promise.target,
        "max_burn_rate": standing.max_burn_rate,
        "burning": standing.burning.value,
        "stable": _arm(standing, Arm.STABLE),
        "candidate": _arm(standing, Arm.CANDIDATE),
    }


def tell_shadow(seen: ShadowSeen, differing: Interval | None) -> dict[str, Any]:
    """`differing`: the share that is decided otherwise, None while nothing was compared."""
    return {
        "num_compared": seen.num_compared,
        "num_differing": seen.num_differing,
        "num_unknown": seen.num_unknown,
        "differing": _interval(differing),
        "groups": [asdict(each) for each in seen.groups],
        "tenants": [asdict(each) for each in seen.tenants],
    }


def _arm(standing: Standing, arm: Arm) -> dict[str, Any]:
    kept = standing.kept[arm]
    return {"num": kept.num, "num_bad": kept.num_bad, "burn": _interval(standing.burn[arm])}


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else asdict(interval)

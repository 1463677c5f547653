"""A comparison as it is kept and shown: plain values, that JSON holds."""

from dataclasses import asdict
from typing import Any

from controlplane.rollouts.analysis.comparison import Comparison


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
        "apart": None if comparison.shown is None else asdict(comparison.shown),
    }

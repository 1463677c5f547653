"""How far the arms of a rollout are apart, in words. Pure."""

from controlplane.api.rollout_views import (
    ArmStandingView,
    ComparisonView,
    RolloutLine,
    ShadowGroupView,
    ShadowView,
    StandingView,
    StepView,
)
from controlplane.slo.burn_rate import percent

UNKNOWN = "unknown"


def scaled(value: float, *, is_share: bool) -> str:
    """`+1.2 points` of shares, `+12.0 %` of anything else; with its sign, since it is a
    difference."""
    return f"{100 * value:+,.1f} {'points' if is_share else '%'}"


def estimate_words(each: ComparisonView) -> str:
    """The best guess of the difference, or that it is unknown."""
    return UNKNOWN if each.apart is None else scaled(each.apart.estimate, is_share=each.is_share)


def interval_words(each: ComparisonView) -> str:
    """Where the true one is: `-0.3 to +2.7 points`."""
    if each.apart is None:
        return UNKNOWN
    low, high = 100 * each.apart.low, 100 * each.apart.high
    return f"{low:+,.1f} to {high:+,.1f} {'points' if each.is_share else '%'}"


def margin_words(each: ComparisonView) -> str:
    """What is no harm: `up to +2.0 points`, `down to -15.0 %`."""
    if each.more_is_worse:
        return f"up to {scaled(each.margin, is_share=each.is_share)}"
    return f"down to {scaled(-each.margin, is_share=each.is_share)}"


def says_of(each: ComparisonView) -> str:
    """What a measure says of the candidate."""
    if not each.applies:
        return "not of this traffic"
    if each.is_good is None:
        return "not known yet"
    return "no worse" if each.is_good else "worse"


def promise_words(each: StandingView) -> str:
    """`interactive ttft: 99 % within 300 ms`."""
    bound = "" if each.at_most_seconds is None else f" within {bound_words(each.at_most_seconds)}"
    return f"{each.request_class} {each.objective}: {percent(each.target)}{bound}"


def kept_words(arm: ArmStandingView) -> str:
    """`2 bad of 1,480`."""
    return f"{arm.num_bad:,} bad of {arm.num:,}"


def burn_words(arm: ArmStandingView) -> str:
    """`1.3, within 0.4 to 3.1`."""
    if arm.burn is None:
        return UNKNOWN
    low, high = _rate(arm.burn.low), _rate(arm.burn.high)
    return f"{_rate(arm.burn.estimate)}, within {low} to {high}"


def _rate(burn: float) -> str:
    return f"{burn:,.0f}" if burn >= 10 else f"{burn:.2g}"


def burning_words(each: StandingView) -> str:
    """What a promise says of the candidate."""
    return _BURNING[each.burning]


def gets_words(line: RolloutLine) -> str:
    """What the candidate gets now: `25 %`, or `shadow`."""
    return "shadow" if line.is_in_shadow else share_words(line.share)


def step_words(step: StepView) -> str:
    """`25 %`, or `shadow`."""
    return "shadow" if step.is_shadow else share_words(step.share)


def shadow_words(view: ShadowView) -> str:
    """How much of what was compared it would have decided otherwise."""
    known = view.differing
    unknown = f"; of {view.num_unknown:,} more nobody knows" if view.num_unknown else ""
    if known is None:
        return f"nothing was compared yet{unknown}"
    return (
        f"otherwise on {view.num_differing:,} of {view.num_compared:,} requests, "
        f"{share_words(known.estimate)} ({share_words(known.low)} to {share_words(known.high)})"
        f"{unknown}"
    )


def shadow_outcome_words(group: ShadowGroupView) -> str:
    """`admitted → rejected (tenant_tokens)`."""
    why = f" ({group.kind})" if group.kind else ""
    return f"{group.enforced} → {group.outcome}{why}"


def shadow_class_words(group: ShadowGroupView) -> str:
    """`interactive`, or `interactive → batch`."""
    own, other = group.request_class or "none", group.shadow_class or "none"
    is_told = group.outcome != "unknown"
    return own if own == other or not is_told else f"{own} → {other}"


def shadow_says(group: ShadowGroupView) -> str:
    """Whether it makes a difference."""
    if group.differs is None:
        return "unknown"
    return "otherwise" if group.differs else "alike"


def bound_words(seconds: float) -> str:
    """A threshold unrounded: `300 ms`, `2.25 s`."""
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


_BURNING = {
    "no": "not too fast",
    "too_fast": "too fast",
    "with_stable": "both too fast",
    "misses": "missed",
    "unknown": "not known yet",
}


def share_words(share: float) -> str:
    """`25 %`, with no more digits than it has."""
    return f"{100 * share:.3g} %"

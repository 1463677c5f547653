"""How far the arms of a rollout are apart, in words. Pure."""

from controlplane.api.rollout_views import ComparisonView

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


def share_words(share: float) -> str:
    """`25 %`, with no more digits than it has."""
    return f"{100 * share:.3g} %"

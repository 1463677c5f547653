"""How far two arms are apart, as a line between better and worse. Pure; templates only draw.

    better  |----:--0--:----|  worse        : is the margin, beyond which worse is harm

All lines of a page share one scale, whose unit is each measure's own margin: where one crosses the
margin is where it counts.
"""

from dataclasses import dataclass

from controlplane.api.rollout_views import ComparisonView
from controlplane.api.rollout_words import (
    estimate_words,
    interval_words,
    margin_words,
    says_of,
)

WIDTH = 200.0
_MOST_MARGINS = 3.0
"""What lies beyond is drawn at the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalBar:
    """Of one measure; places are from 0, much better, to WIDTH, much worse."""

    start: float
    """Where the interval begins."""
    end: float
    estimate: float
    goes_on_left: bool
    """The interval goes on beyond what is drawn."""
    goes_on_right: bool
    words: str
    """All of it, for who does not see it."""


def zero_place() -> float:
    """Where the arms are alike."""
    return WIDTH / 2


def margin_place() -> float:
    """Beyond it the candidate does harm."""
    return _place(1)


def draw_interval(each: ComparisonView) -> IntervalBar | None:
    """None: too few requests to tell anything."""
    if each.apart is None:
        return None
    sign = 1 if each.more_is_worse else -1
    ends = sorted(sign * value / each.margin for value in (each.apart.low, each.apart.high))
    return IntervalBar(
        start=_place(ends[0]),
        end=_place(ends[1]),
        estimate=_place(sign * each.apart.estimate / each.margin),
        goes_on_left=ends[0] < -_MOST_MARGINS,
        goes_on_right=ends[1] > _MOST_MARGINS,
        words=(
            f"{each.measure}: {estimate_words(each)}, within {interval_words(each)}; no harm "
            f"{margin_words(each)}: {says_of(each)}"
        ),
    )


def _place(margins: float) -> float:
    """Of a difference in margins, worse to the right."""
    cut = min(_MOST_MARGINS, max(-_MOST_MARGINS, margins))
    return round(WIDTH / 2 * (1 + cut / _MOST_MARGINS), 2)

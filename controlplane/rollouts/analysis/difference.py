"""How far two arms are apart, with bounds that hold however often somebody looks.

The difference of means is taken within strata of requests that are alike, and averaged with
Mantel-Haenszel weights. Around it stands a confidence sequence: with probability `1 - alpha` the
true difference is within it at every look, so that a step may be judged after each request and
ended at any of them. It is the two-sided normal mixture (Robbins 1970; Howard, Ramdas, McAuliffe
and Sekhon 2021, Time-uniform, nonparametric, nonasymptotic confidence sequences, eq. 14) over an
estimated variance, which makes it exact as numbers grow (Waudby-Smith, Arbour, Sinha, Kennedy and
Ramdas 2021): ask for some hundred requests of each arm first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.rollouts.analysis.moments import Moments

_UNSEEN = 1.0
"""Squared deviation of one that was not seen yet: of a thousand good ones without a bad one the
next may still be bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where a true difference lies, and the best guess of it."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Stratum:
    """Requests that are alike, of both arms."""

    stable: Moments
    candidate: Moments


def difference(
    strata: Sequence[Stratum], *, alpha: float, sharpest_at: float, is_share: bool
) -> Interval | None:
    """Candidate less stable, over the strata that have both; None: too few to tell anything.

    `alpha`: how often, at most, the true one may ever be outside, 0 to 1. `sharpest_at`: the
    half-width, in the unit of the values, that is reached with the fewest requests. `is_share`:
    values are 0 or 1.
    """
    matched = [each for each in strata if each.stable.num and each.candidate.num]
    weights = [_weight(each) for each in matched]
    whole = sum(weights)
    if not whole:
        return None
    spreads = (
        _variance([each.stable for each in matched], is_share),
        _variance([each.candidate for each in matched], is_share),
    )
    if spreads[0] is None or spreads[1] is None:
        return None
    estimate = (
        sum(
            weight * (each.candidate.mean - each.stable.mean)
            for weight, each in zip(weights, matched, strict=True)
        )
        / whole
    )
    variance = sum(
        (weight / whole) ** 2 * (spreads[0] / each.stable.num + spreads[1] / each.candidate.num)
        for weight, each in zip(weights, matched, strict=True)
    )
    half = _half_width(variance, alpha, sharpest_at)
    return Interval(estimate=estimate, low=estimate - half, high=estimate + half)


def _weight(stratum: Stratum) -> float:
    """Mantel-Haenszel: a stratum counts as much as it can tell."""
    num_stable, num_candidate = stratum.stable.num, stratum.candidate.num
    return num_stable * num_candidate / (num_stable + num_candidate)


def _variance(of_arm: Sequence[Moments], is_share: bool) -> float | None:
    """Of one value within its stratum, pooled over the strata of an arm."""
    squares = sum(each.squares for each in of_arm)
    if is_share:
        return (squares + _UNSEEN) / sum(each.num for each in of_arm)
    freedom = sum(each.num - 1 for each in of_arm)
    return squares / freedom if freedom else None


def _half_width(variance: float, alpha: float, sharpest_at: float) -> float:
    if not variance:
        return 0.0
    information = 1 / variance
    prior = _prior_information(alpha, sharpest_at)
    total = information + prior
    return math.sqrt(total / information**2 * (math.log(total / prior) + 2 * math.log(1 / alpha)))


def _prior_information(alpha: float, sharpest_at: float) -> float:
    """The mixture's own, so that the bounds are tightest where they decide: as far apart as
    `sharpest_at`."""
    log_odds = 2 * math.log(1 / alpha)
    ratio = log_odds + math.log(1 + log_odds)
    needed = (1 + 1 / ratio) * (math.log(1 + ratio) + log_odds) / sharpest_at**2
    return needed / ratio

"""Bounds of one share, that hold exactly and however often somebody looks.

Requests are good or bad. Against "the true share is at most `p`" speaks how much likelier what was
seen is under larger shares, averaged over some of them: a test martingale for every share up to
`p` (Ville 1939; Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021, Time-uniform,
nonparametric, nonasymptotic confidence sequences). It ever comes to `1 / alpha` with a probability
of at most `alpha`, for few requests and for rare failures as well: no variance is estimated.
"""

import math

_FURTHER = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0)
"""By what the odds of the shares that are averaged over are larger than those of `p`."""
_HALVINGS = 40


def least_share(num: int, num_bad: int, alpha: float) -> float:
    """What the true share of bad ones is surely not below, 0 to 1.

    `alpha`: how often, at most, it may ever be below after all, 0 to 1.
    """
    if not num_bad:
        return 0.0
    low, high = 0.0, num_bad / num
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _log_evidence(num, num_bad, middle) >= -math.log(alpha):
            low = middle
        else:
            high = middle
    return low


def most_share(num: int, num_bad: int, alpha: float) -> float:
    """What it is surely not above, 0 to 1."""
    return 1 - least_share(num, num - num_bad, alpha)


def _log_evidence(num: int, num_bad: int, share: float) -> float:
    """Against a true share of at most `share`, above 0 and at most what was seen."""
    if share >= 1:
        return 0.0
    odds = share / (1 - share)
    logs = [
        num_bad * (math.log(further) + math.log((1 + odds) / (1 + odds * further)))
        + (num - num_bad) * math.log((1 + odds) / (1 + odds * further))
        for further in _FURTHER
    ]
    most = max(logs)
    return most + math.log(sum(math.exp(each - most) for each in logs) / len(logs))

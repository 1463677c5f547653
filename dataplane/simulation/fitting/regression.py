"""Least squares on relative errors, robust to outliers, with no coefficient below zero.

The form is additive: a line through knots over the number of tokens, and a share for each part
of the work. That line ascends, so it too is a sum of parts that are not negative: what lies
below the first knot, and what each stretch between two knots adds for each token::

    seconds = base + sum over stretches (slope * tokens inside the stretch) + shares * work

Two forms are tried: one straight line, and one with knots where the machine may change its
ways (matrix products of few rows, of many). The one that predicts steps better which it did
not see is taken; the straight one wins where the other is hardly better.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dataplane.simulation.fitting.document import StepForm, TokensKnot
from dataplane.simulation.fitting.work import Work

Array = npt.NDArray[np.float64]

_HUBER = 1.345
"""Residuals beyond so many spreads count in proportion, not squared."""
_NUM_ROUNDS = 12
_NUM_FOLDS = 5
_WORTH = 0.95
"""Knots must bring the error down to this share of the straight line's."""
_MIN_STEPS_A_STRETCH = 8
_NEGLIGIBLE = 1e-9
_CANDIDATE_KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_SHARES = (
    "per_prompt_token",
    "per_decode_step",
    "per_context_token",
    "per_reread_token",
    "per_attended_token",
)


def fit_form(works: Sequence[Work], seconds: Array) -> StepForm:
    """The better form, fitted to all steps."""
    return _fit(choose_knots(works, seconds), works, seconds)


def choose_knots(works: Sequence[Work], seconds: Array) -> tuple[int, ...]:
    """Those of the form that predicts better; () is the straight line."""
    knots = _supported_knots(works)
    straight, bent = (
        np.median(np.abs(predict_unseen(each, works, seconds) / seconds - 1))
        for each in ((), knots)
    )
    return knots if len(knots) > 1 and bent < _WORTH * straight - _NEGLIGIBLE else ()


def predict_unseen(knots: tuple[int, ...], works: Sequence[Work], seconds: Array) -> Array:
    """What the form says of each step when it is fitted to the others only.

    Folds are stretches of time: neighbours share what disturbed them.
    """
    folds = np.arange(len(works)) * _NUM_FOLDS // len(works)
    predicted = np.zeros(len(works))
    for fold in range(_NUM_FOLDS):
        kept = [work for work, each in zip(works, folds, strict=True) if each != fold]
        form = _fit(knots, kept, seconds[folds != fold])
        left = [work for work, each in zip(works, folds, strict=True) if each == fold]
        predicted[folds == fold] = predict(form, left)
    return predicted


def predict(form: StepForm, works: Sequence[Work]) -> Array:
    """Seconds of each step."""
    tokens = np.array([work.num_tokens for work in works], dtype=float)
    shares = np.array([getattr(form, name) for name in _SHARES])
    parts: Array = np.array(works, dtype=float) @ shares
    return _line(form.knots, tokens) + parts


def _line(knots: tuple[TokensKnot, ...], tokens: Array) -> Array:
    at = np.array([knot.num_tokens for knot in knots], dtype=float)
    seconds = np.array([knot.seconds for knot in knots])
    inside: Array = np.interp(tokens, at, seconds)
    if len(knots) < 2:
        return inside
    slope = float((seconds[-1] - seconds[-2]) / (at[-1] - at[-2]))
    beyond: Array = np.maximum(0.0, tokens - at[-1])
    return inside + slope * beyond


def _supported_knots(works: Sequence[Work]) -> tuple[int, ...]:
    """With enough steps between each and the one before it."""
    tokens = np.sort([work.num_tokens for work in works])
    knots: list[int] = []
    last = 0
    for knot in _CANDIDATE_KNOTS:
        count = int(np.searchsorted(tokens, knot, side="right"))
        if count - last >= _MIN_STEPS_A_STRETCH:
            knots.append(knot)
            last = count
    return tuple(knots)


def _fit(knots: tuple[int, ...], works: Sequence[Work], seconds: Array) -> StepForm:
    columns = np.column_stack([_stretches(knots, works), np.array(works, dtype=float)])
    weights = 1.0 / seconds
    found = np.zeros(columns.shape[1])
    for _ in range(_NUM_ROUNDS):
        found = least_squares(columns * weights[:, None], seconds * weights)
        off = seconds / np.maximum(columns @ found, 1e-12) - 1
        spread = 1.4826 * float(np.median(np.abs(off)))
        if spread < _NEGLIGIBLE:
            break
        trust = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(off), 1e-12))
        weights = np.sqrt(trust) / seconds
    return _to_form(knots, found)


def _stretches(knots: tuple[int, ...], works: Sequence[Work]) -> Array:
    """[steps, 1 + stretches]: a one, and the tokens inside each stretch."""
    tokens = np.array([work.num_tokens for work in works], dtype=float)
    ends = (*knots[1:], np.inf) if knots else ()
    inside = [
        np.clip(tokens - start, 0.0, end - start) for start, end in zip(knots, ends, strict=True)
    ]
    return np.column_stack([np.ones(len(works)), *inside])


def _to_form(knots: tuple[int, ...], found: Array) -> StepForm:
    base, slopes = float(found[0]), found[1 : 1 + len(knots)]
    placed = [TokensKnot(num_tokens=knots[0] if knots else 0, seconds=base)]
    # A last knot carries the last slope on.
    ends = [*knots[1:], 2 * knots[-1]] if knots else []
    for start, end, slope in zip(knots, ends, slopes, strict=True):
        seconds = placed[-1].seconds + float(slope) * (end - start)
        placed.append(TokensKnot(num_tokens=end, seconds=seconds))
    shares = (float(share) for share in found[1 + len(knots) :])
    return StepForm(knots=tuple(placed), **dict(zip(_SHARES, shares, strict=True)))


def least_squares(columns: Array, target: Array) -> Array:
    """The x >= 0 with the least |columns @ x - target|, by active sets (Lawson and Hanson)."""
    scale = np.sqrt((columns**2).sum(axis=0))
    scale[scale == 0] = 1.0
    columns = columns / scale
    num = columns.shape[1]
    if len(columns) > num:  # the same problem in as many rows as there are columns
        rotation, columns = np.linalg.qr(columns)
        target = rotation.T @ target
    found = np.zeros(num)
    is_free = np.zeros(num, dtype=bool)
    tolerance = 1e-10 * max(1.0, float(np.abs(columns.T @ target).max(initial=0.0)))
    for _ in range(10 * num):
        pull = columns.T @ (target - columns @ found)
        if is_free.all() or pull[~is_free].max() <= tolerance:
            break
        is_free[int(np.argmax(np.where(is_free, -np.inf, pull)))] = True
        found = _solve_free(columns, target, found, is_free)
    unscaled: Array = found / scale
    return unscaled


def _solve_free(
    columns: Array, target: Array, found: Array, is_free: npt.NDArray[np.bool_]
) -> Array:
    """Solve for the free ones; those that would fall below zero stop there. Changes `is_free`."""
    while True:
        solved = np.zeros_like(found)
        solved[is_free] = np.linalg.lstsq(columns[:, is_free], target, rcond=None)[0]
        blocking = is_free & (solved <= 0)
        if not blocking.any():
            return solved
        step = np.min(found[blocking] / np.maximum(found[blocking] - solved[blocking], 1e-300))
        found = found + step * (solved - found)
        is_free &= found > 1e-14
        found[~is_free] = 0.0

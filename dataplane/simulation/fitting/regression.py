"""Least squares on relative errors, robust to outliers, with no coefficient below zero.

The form is additive: a line through knots over the number of tokens, and a share for each part
of the work. Three shapes of that line are tried:

    straight   the same in every step; all else is shares
    rising     knots, each at least as high as the one before it: what lies below the first one,
               and what each stretch between two adds a token, are not negative
    free       the same, but knots of few tokens may have any height: some machines take longer
               for three rows than for four

The one that predicts steps better which it did not see is taken, and the simpler one where the
other is hardly better. Then shares are left out, one after the other, that nothing is lost
without: what noise made up would mislead beyond the range that was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dataplane.simulation.fitting.document import StepForm, TokensKnot
from dataplane.simulation.fitting.work import Work

Array = npt.NDArray[np.float64]

_HUBER = 1.345
"""Residuals beyond so many spreads count in proportion, not squared."""
_NUM_ROUNDS = 12
_NUM_FOLDS = 5
_WORTH = 0.97
"""A shape must bring the error down to this share of the simpler one's."""
_MIN_STEPS_A_STRETCH = 8
_FREE_TOKENS = 8
"""Beyond, a step that takes less for more tokens is chance."""
_NEGLIGIBLE = 1e-9
_NO_LOSS = 1.003
"""A share is left out where the error without it is at most so many times as large."""
_MAX_STEPS_TO_CHOOSE = 20_000
_CANDIDATE_KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# As the fields of Work are in order.
_SHARES = (
    "per_prompt_token",
    "per_decode_step",
    "per_context_token",
    "per_reread_token",
    "per_attended_token",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the form is made of. Without knots the line over the number of tokens is straight."""

    knots: tuple[int, ...] = ()
    is_free: bool = False
    shares: tuple[str, ...] = _SHARES

    @property
    def num_free(self) -> int:
        """Knots, from the first, whose height is found by itself. The others rise."""
        return max(1, sum(knot <= _FREE_TOKENS for knot in self.knots)) if self.is_free else 1


def fit_form(works: Sequence[Work], seconds: Array) -> StepForm:
    """The best shape, fitted to all steps."""
    return fit_shape(choose_shape(works, seconds), works, seconds)


def choose_straight(works: Sequence[Work], seconds: Array) -> Shape:
    """The straight shape without the shares that are not missed: for means over several steps,
    which say nothing of how a step's time bends with its tokens."""
    works, seconds = _thinned(works, seconds)
    return _leave_out(Shape(), _error_unseen(Shape(), works, seconds), works, seconds)


def choose_shape(works: Sequence[Work], seconds: Array) -> Shape:
    """The one that predicts best what it did not see."""
    works, seconds = _thinned(works, seconds)
    chosen, least = Shape(), _error_unseen(Shape(), works, seconds)
    knots = _supported_knots(works)
    shapes = (Shape(knots), Shape(knots, is_free=True)) if len(knots) > 1 else ()
    for shape in shapes:
        error = _error_unseen(shape, works, seconds)
        if error < _WORTH * least - _NEGLIGIBLE:
            chosen, least = shape, error
    return _leave_out(chosen, least, works, seconds)


def _thinned(works: Sequence[Work], seconds: Array) -> tuple[Sequence[Work], Array]:
    stride = -(-len(works) // _MAX_STEPS_TO_CHOOSE)
    return works[::stride], seconds[::stride]


def _leave_out(shape: Shape, error: float, works: Sequence[Work], seconds: Array) -> Shape:
    """Without the shares that are not missed; those that matter least in most engines first."""
    for share in reversed(_SHARES):
        smaller = replace(shape, shares=tuple(each for each in shape.shares if each != share))
        found = _error_unseen(smaller, works, seconds)
        if found <= _NO_LOSS * error + _NEGLIGIBLE:
            shape, error = smaller, min(error, found)
    return shape


def _error_unseen(shape: Shape, works: Sequence[Work], seconds: Array) -> float:
    return float(np.mean(np.minimum(1.0, abs(predict_unseen(shape, works, seconds) / seconds - 1))))


def predict_unseen(
    shape: Shape, works: Sequence[Work], seconds: Array, counts: Array | None = None
) -> Array:
    """What the form says of each step when it is fitted to the others only.

    Folds are stretches of time: neighbours share what disturbed them.
    """
    folds = np.arange(len(works)) * _NUM_FOLDS // len(works)
    predicted = np.zeros(len(works))
    for fold in range(_NUM_FOLDS):
        kept = [work for work, each in zip(works, folds, strict=True) if each != fold]
        kept_counts = None if counts is None else counts[folds != fold]
        form = fit_shape(shape, kept, seconds[folds != fold], kept_counts)
        left = [work for work, each in zip(works, folds, strict=True) if each == fold]
        predicted[folds == fold] = predict(form, left)
    return predicted


def predict(form: StepForm, works: Sequence[Work]) -> Array:
    """Seconds of each step."""
    tokens = np.array([work.num_tokens for work in works], dtype=float)
    shares = np.array([getattr(form, name) for name in _SHARES])
    parts: Array = np.array(works, dtype=float) @ shares
    return line_at(form.knots, tokens) + parts


def line_at(knots: tuple[TokensKnot, ...], tokens: Array) -> Array:
    """Seconds on the line through the knots, at each number of tokens."""
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


def fit_shape(
    shape: Shape, works: Sequence[Work], seconds: Array, counts: Array | None = None
) -> StepForm:
    """The coefficients of `shape` with the least error.

    What took longer than usual is trusted less, so that all together come out too short where a
    machine was disturbed. With `counts` each is the mean of so many steps, of which no noise is
    known that would bring it back: then they are stretched to what all steps took together.
    """
    parts = _parts(shape, works)
    amounts = np.array(works, dtype=float)[:, [_SHARES.index(each) for each in shape.shares]]
    columns = np.column_stack([parts, amounts])
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
    if counts is not None:
        found = found * float(counts @ seconds / max(counts @ columns @ found, 1e-12))
    num_parts = parts.shape[1]
    shares = dict(zip(shape.shares, found[num_parts:].tolist(), strict=True))
    return StepForm(knots=_place(shape, found[:num_parts].tolist()), **shares)


def _parts(shape: Shape, works: Sequence[Work]) -> Array:
    """[steps, heights + stretches]: how much of each free knot's height is in a step, and its
    tokens inside each stretch behind the last of them."""
    if not shape.knots:
        return np.ones((len(works), 1))
    tokens = np.array([work.num_tokens for work in works], dtype=float)
    at = np.array(shape.knots[: shape.num_free], dtype=float)
    heights = [np.interp(tokens, at, row) for row in np.eye(len(at))]
    starts = shape.knots[shape.num_free - 1 :]
    inside = [
        np.clip(tokens - start, 0.0, end - start)
        for start, end in zip(starts, (*starts[1:], np.inf), strict=True)
    ]
    return np.column_stack([*heights, *inside])


def _place(shape: Shape, found: Sequence[float]) -> tuple[TokensKnot, ...]:
    """The free heights, and behind them what each stretch adds. Past the last knot the last
    stretch goes on: one more knot says so."""
    if not shape.knots:
        return (TokensKnot(num_tokens=0, seconds=found[0]),)
    free = zip(shape.knots, found[: shape.num_free], strict=False)
    placed = [TokensKnot(num_tokens=knot, seconds=height) for knot, height in free]
    ends = (*shape.knots[shape.num_free :], 2 * shape.knots[-1])
    for end, slope in zip(ends, found[shape.num_free :], strict=True):
        before = placed[-1]
        seconds = before.seconds + slope * (end - before.num_tokens)
        placed.append(TokensKnot(num_tokens=end, seconds=seconds))
    return tuple(placed)


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

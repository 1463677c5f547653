"""What the mean steps of many requests say of any step: for sources that show no step.

Who else prefilled and decoded beside a request says what its mean step held (`windows.py`).
Prefills and decodes are explained at once, by a straight line::

    prefill of a request       = base + prompt tokens + rows that decoded + their context
    a decode, by its tokens    = base + the same, of its mean step

How many steps a decode took is known, and of a prefill it is not: where prefills take clearly
longer than the one step that decodes say, prompts were cut, and decodes alone are fitted. What
prompts cost is in them too: of those that others computed meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataplane.simulation.fitting.document import Range, Residuals, StepForm
from dataplane.simulation.fitting.regression import (
    Array,
    choose_straight,
    fit_shape,
    predict,
    predict_unseen,
)
from dataplane.simulation.fitting.residuals import measure_residuals
from dataplane.simulation.fitting.served_request import ServedRequest
from dataplane.simulation.fitting.windows import Window, observe_windows
from dataplane.simulation.fitting.work import Work

MIN_REQUESTS = 50
_CUT = 1.2
"""A quarter of the prefills took more than so many times the step that decodes tell of."""
_CANNOT_TELL = (
    "what steps of the same work differ by: a request shows sums, never a step",
    "how the time bends with the batch: means over steps carry a straight line and no more",
    "what rereading the beginning of a prompt costs that was cut into chunks",
)


@dataclass(frozen=True, slots=True)
class MeanSteps:
    """The fit of them."""

    form: StepForm
    residuals: tuple[Residuals, ...]
    seen: Range
    cannot_tell: tuple[str, ...]


def fit_mean_steps(requests: Sequence[ServedRequest], *, knows_prefills: bool = True) -> MeanSteps:
    """Of all requests of a time, MIN_REQUESTS of them at least.

    Where nobody knows when a prefill began, decodes alone are fitted, and so many must have one.
    """
    windows, told = _choose(observe_windows(requests), knows_prefills)
    works, seconds = _columns(windows)
    counts = np.array([window.num_steps for window in windows])
    shape = choose_straight(works, seconds)
    unseen = predict_unseen(shape, works, seconds, counts)
    return MeanSteps(
        form=fit_shape(shape, works, seconds, counts),
        residuals=_residuals(windows, unseen, seconds),
        seen=Range(
            num_tokens=round(max(work.num_tokens for work in works)),
            num_decode_steps=round(max(work.num_decode_steps for work in works)),
            num_context_tokens=round(max(work.num_context_tokens for work in works)),
        ),
        cannot_tell=(*_CANNOT_TELL, told),
    )


def _residuals(
    windows: Sequence[Window], predicted: Array, seconds: Array
) -> tuple[Residuals, ...]:
    prefills = np.array([window.is_prefill for window in windows])
    groups = [("all", prefills | True), ("decode", ~prefills), ("prefill", prefills)]
    return tuple(
        measure_residuals(name, predicted[chosen], seconds[chosen])
        for name, chosen in groups
        if chosen.any()
    )


def _choose(windows: Sequence[Window], knows_prefills: bool) -> tuple[Sequence[Window], str]:
    """Those to be fitted, and what is told of it."""
    decodes = [window for window in windows if not window.is_prefill]
    many = "how many steps a prefill took"
    if not knows_prefills:
        return decodes, f"{many}: what prompts cost is taken from decodes that ran beside"
    if len(decodes) >= MIN_REQUESTS and (factor := _prefills_by_step(windows, decodes)) > _CUT:
        return decodes, (
            f"{many}: a quarter of them took over {factor:.1f} times a step that holds their "
            f"prompt, so prompts were cut; what they cost is taken from decodes that ran beside"
        )
    return windows, f"{many}: each is taken to be one, and prompts that were cut look dearer"


def _prefills_by_step(windows: Sequence[Window], decodes: Sequence[Window]) -> float:
    """How many times a step the longer prefills took, by what decodes say of steps."""
    prefills = [window for window in windows if window.is_prefill]
    works, seconds = _columns(decodes)
    form = fit_shape(choose_straight(works, seconds), works, seconds)
    works, seconds = _columns(prefills)
    return float(np.percentile(seconds / np.maximum(predict(form, works), 1e-12), 75))


def _columns(windows: Sequence[Window]) -> tuple[list[Work], Array]:
    seconds = np.array([window.seconds for window in windows])
    return [window.work for window in windows], seconds

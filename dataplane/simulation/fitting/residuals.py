"""How far a fit is off, on what it did not see."""

import numpy as np

from dataplane.simulation.fitting.document import Residuals
from dataplane.simulation.fitting.regression import Array


def measure_residuals(name: str, predicted: Array, seconds: Array) -> Residuals:
    """Of the steps called `name`, in what a fit says that did not see them."""
    median, p90 = np.percentile(np.abs(predicted / seconds - 1), [50, 90])
    return Residuals(
        steps=name,
        num_steps=len(seconds),
        median=float(median),
        p90=float(p90),
        bias=float(predicted.sum() / seconds.sum() - 1),
    )

"""Percentiles of what was measured, and the spread of a figure over rounds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


def percentile(values: Iterable[float], share: float) -> float:
    """Nearest rank: the smallest value that at least `share` of all do not exceed.

    Raises ValueError of none: missing is never zero.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there is no percentile of nothing: no value was measured")
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One figure over several rounds."""

    median: float
    least: float
    most: float
    num_rounds: int

    def as_dict(self) -> dict[str, float]:
        """For a report."""
        return asdict(self)

    def tell(self, unit: str = "", digits: int = 2) -> str:
        """For a reader."""
        if self.num_rounds == 1:
            return f"{self.median:.{digits}f}{unit}"
        return f"{self.median:.{digits}f}{unit} ({self.least:.{digits}f} to {self.most:.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Of at least one round."""
    return Spread(
        median=statistics.median(values),
        least=min(values),
        most=max(values),
        num_rounds=len(values),
    )


def milliseconds(seconds: Iterable[float], share: float) -> float:
    """A percentile of seconds, in milliseconds."""
    return 1e3 * percentile(seconds, share)

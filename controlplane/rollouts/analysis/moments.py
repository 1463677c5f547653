"""How many values there were, their mean and their spread: enough of them for a comparison."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moments:
    """Of the values of one arm in one stratum."""

    num: int = 0
    mean: float = 0.0
    """0 where there is no value."""
    squares: float = 0.0
    """Sum of the squared deviations from the mean."""

    @classmethod
    def of(cls, values: Iterable[float]) -> "Moments":
        """One pass, by Welford's recurrence: sums of squares of large values would cancel."""
        num, mean, squares = 0, 0.0, 0.0
        for value in values:
            num += 1
            step = value - mean
            mean += step / num
            squares += step * (value - mean)
        return cls(num, mean, squares)

    @classmethod
    def of_share(cls, num: int, num_that_have_it: int) -> "Moments":
        """Of `num` values, each 0 or 1."""
        if not num:
            return cls()
        share = num_that_have_it / num
        return cls(num, share, num * share * (1 - share))

    def plus(self, other: "Moments") -> "Moments":
        """Of the values of both (Chan, Golub and LeVeque 1979)."""
        num = self.num + other.num
        if not num:
            return self
        apart = other.mean - self.mean
        return Moments(
            num,
            self.mean + apart * other.num / num,
            self.squares + other.squares + apart * apart * self.num * other.num / num,
        )

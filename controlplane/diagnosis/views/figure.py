"""A number with the words in which it was said, for findings to cite."""

from dataclasses import dataclass

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and its sentence."""

    value: float
    says: str
    fact: Fact | None = None


def figure_of(fact: Fact | None, value: float | None) -> Figure | None:
    """Of a fact that was read as `value`."""
    return None if fact is None or value is None else Figure(value, says(fact), fact)

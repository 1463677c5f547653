"""What measurements of a step say: go on, go back, or nothing yet. Pure.

Only what was measured counts. A query that failed, one that found nothing and a value that is no
number say nothing at all: they are never a success, and of themselves never a failure, so that a
broken metrics server neither promotes a bad revision nor throws out a good one. An analysis that
ends early has measured less, and is undecided where that is too little.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Of a step."""

    PROMOTE = "promote"
    REJECT = "reject"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One answer, or none, about one metric."""

    metric: str
    value: float | None
    """None: it was not answered, or there was no such series."""
    is_good: bool | None
    """By the metric's own condition; None: too few requests to tell, or neither good nor bad."""
    why_none: str = ""
    """Of a query that failed: with what."""

    @property
    def is_conclusive(self) -> bool:
        """It tells something."""
        return self.is_good is not None and self.value is not None and math.isfinite(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictTerms:
    """How much is enough."""

    metrics: tuple[str, ...]
    """All that must be good. One that was never measured is missing, and not well."""
    min_good: int = 1
    """Of each metric, before it speaks for the step. At least 1."""
    max_bad: int = 0
    """Of each metric; one more is against the step."""

    def __post_init__(self) -> None:
        if not self.metrics or self.min_good < 1 or self.max_bad < 0:
            raise ValueError(
                "a verdict needs metrics, min_good of at least 1 and max_bad of at least 0; got "
                f"{len(self.metrics)} metrics, min_good {self.min_good} and max_bad {self.max_bad}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict, and what it is owed to."""

    verdict: Verdict
    reason: str
    deciding: Measurement | None = None
    """The one measurement that turned it: the bad one that was too many. None: no single one."""


def decide(measurements: Sequence[Measurement], terms: VerdictTerms) -> Decision:
    """Of all measurements of a step so far, in the order they were made.

    Raises ValueError for one of a metric that the terms do not name.
    """
    strangers = sorted({each.metric for each in measurements} - set(terms.metrics))
    if strangers:
        raise ValueError(
            f"measured {', '.join(strangers)}; the terms name {', '.join(terms.metrics)}"
        )
    for metric in terms.metrics:
        bad = [each for each in _of(metric, measurements) if each.is_good is False]
        if len(bad) > terms.max_bad:
            reason = f"{metric} was bad {len(bad)} times, {terms.max_bad} are allowed"
            return Decision(verdict=Verdict.REJECT, reason=reason, deciding=bad[terms.max_bad])
    lacking = [why for metric in terms.metrics if (why := _lacks(metric, measurements, terms))]
    if lacking:
        return Decision(verdict=Verdict.UNDECIDED, reason="; ".join(lacking))
    reason = f"each of {', '.join(terms.metrics)} was good at least {terms.min_good} times"
    return Decision(verdict=Verdict.PROMOTE, reason=reason)


def _of(metric: str, measurements: Sequence[Measurement]) -> list[Measurement]:
    """Those that tell something of it."""
    return [each for each in measurements if each.metric == metric and each.is_conclusive]


def _lacks(metric: str, measurements: Sequence[Measurement], terms: VerdictTerms) -> str | None:
    """Why a metric does not speak for the step yet."""
    num_good = sum(each.is_good is True for each in _of(metric, measurements))
    if num_good >= terms.min_good:
        return None
    said_nothing = [
        each for each in measurements if each.metric == metric and not each.is_conclusive
    ]
    told = f"{metric} was good {num_good} of the {terms.min_good} times that are needed"
    if not said_nothing:
        return told
    why = next((each.why_none for each in reversed(said_nothing) if each.why_none), "")
    return f"{told}, and said nothing {len(said_nothing)} times" + (f": {why}" if why else "")

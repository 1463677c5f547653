"""Servers that answered and whose ports refuse every connection now, as our own calls met it."""

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.window import Window

_LEAST_SECONDS = 10.0
_LEAST_LOOKS = 2
"""A restart lets one call fail, and a quick one no second."""
_SURE_SECONDS = 20.0
_SURE_LOOKS = 3
"""An engine that is started again listens within this time, or takes far longer to serve."""
_MOST_AGE_SECONDS = 90.0
"""What was met earlier says nothing of the present."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneReplica:
    """One of them."""

    name: str
    """Empty where one server alone is watched."""
    since: Fact
    """From the first refused call to the last, in seconds."""
    looks: Fact
    """How many calls were refused."""

    @property
    def is_sure(self) -> bool:
        """It was refused often enough, for long enough."""
        return _value(self.since) >= _SURE_SECONDS and _value(self.looks) >= _SURE_LOOKS


def gone_replicas(window: Window) -> tuple[GoneReplica, ...]:
    """Those of which it is likely at least. Of cases and files none: nobody called there."""
    return window.once(gone_replicas, lambda: tuple(_gone(window)))


def all_gone(window: Window) -> Fact | None:
    """Since when the last of them is, where nothing is known of any other that may be there; None
    where one is, or none is gone."""
    gone = gone_replicas(window)
    names = {each.name for each in gone}
    known = {each.labels["replica"] for each in window.series if "replica" in each.labels}
    known |= {fact.part for fact in window.facts_of("scrape failure") if fact.part}
    if not gone or not ("" in names or known <= names):
        return None
    return gone[-1].since


def _gone(window: Window) -> Iterator[GoneReplica]:
    looks = {fact.part: fact for fact in window.facts_of("port is shut looks")}
    for since in window.facts_of("port is shut since"):
        count = looks.get(since.part)
        if count is None or not (since.is_observed and count.is_observed):
            continue
        is_now = window.end - since.at <= _MOST_AGE_SECONDS
        if is_now and _value(since) >= _LEAST_SECONDS and _value(count) >= _LEAST_LOOKS:
            yield GoneReplica(name=since.part or "", since=since, looks=count)


def _value(fact: Fact) -> float:
    return fact.value or 0.0

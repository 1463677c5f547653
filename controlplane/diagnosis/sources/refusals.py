"""Calls in a row that a port refused, of a server that answered before: nothing listens there.

A frozen process takes connections, a network that is lost brings no word or another one. Only who
calls by itself can tell them apart, so nothing that is read from files makes these facts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of

SHUT_KEY = "port_is_shut_since_s"
"""From the first of those calls to the last, of each server."""
LOOKS_KEY = "port_is_shut_looks"
"""How many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """How it stands after the last call; by default nobody has called."""

    has_answered: bool = False
    """Whatever, in time or not in a row: it was there."""
    since: float | None = None
    """The first of them, in Unix seconds."""
    last_at: float = 0.0
    num: int = 0

    def after_answer(self) -> "Refusals":
        """With one more call, to which something was answered."""
        return Refusals(has_answered=True)

    def after_silence(self) -> "Refusals":
        """With one to which nothing came, and no refusal."""
        return Refusals(has_answered=self.has_answered)

    def after_refusal(self, at: float) -> "Refusals":
        """With one more that its port refused."""
        since = at if self.since is None else self.since
        return replace(self, since=since, last_at=at, num=self.num + 1)

    @property
    def is_end(self) -> bool:
        """It was there, and is not now."""
        return self.has_answered and self.num > 0


def told_of_refusals(refusals: Mapping[str, Refusals]) -> tuple[Fact, ...]:
    """Of each server, by its name; of one without a name the same without it. Nothing of those that
    are there, or never were."""
    gone = {name: each for name, each in refusals.items() if each.is_end}
    return tuple(fact for name, each in gone.items() for fact in _told(name, each))


def _told(name: str, gone: Refusals) -> Iterator[Fact]:
    since = gone.last_at if gone.since is None else gone.since
    for key, value in ((SHUT_KEY, round(gone.last_at - since)), (LOOKS_KEY, gone.num)):
        said = facts_of({key: {name: value} if name else value}, gone.last_at, is_observed=True)
        yield from (fact for fact in said if fact.part or not name)

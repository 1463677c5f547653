"""Scrapes without an answer: an observation like any other."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.window import Doubt, DoubtKind

UNANSWERED_KEY = "scrapes_unanswered"
ALL_KEY = "scrapes"
FAILURE_KEY = "scrape_failure"
"""The last reason, of each endpoint."""
SILENT_KEY = "shows_no_page_since_s"
"""For how long, of each endpoint that showed pages before."""

HEALTH_KEY = "answer_of_health"
"""Of each endpoint that is silent and was asked for that, too."""


class FailedScrape(NamedTuple):
    """One of them."""

    at: float
    place: str
    """Which endpoint."""
    why: str


def told_of_failures(
    failed: Sequence[FailedScrape], num_all: int
) -> tuple[tuple[Fact, ...], tuple[Doubt, ...]]:
    """How many there were, of each endpoint where they are several; nothing where there are none.
    `num_all` counts scrapes of all endpoints, answered or not."""
    if not failed:
        return (), ()
    places = list(dict.fromkeys(each.place for each in failed))
    numbers = {place: sum(each.place == place for each in failed) for place in places}
    at = max(each.at for each in failed)
    facts = facts_of({UNANSWERED_KEY: len(failed), ALL_KEY: num_all}, at, is_observed=True)
    parts = facts_of({UNANSWERED_KEY: numbers}, at, is_observed=True)[1:]
    last = {each.place: each.why for each in failed}
    reasons = facts_of({FAILURE_KEY: last}, at, is_observed=True)
    return (*facts, *parts, *reasons), tuple(_doubt(place, failed) for place in places)


def _doubt(place: str, failed: Sequence[FailedScrape]) -> Doubt:
    own = [each for each in failed if each.place == place]
    reasons = ", ".join(list(dict.fromkeys(each.why for each in own))[:2])
    return Doubt(
        kind=DoubtKind.MISSING,
        name=place,
        what=f"{place} gave no page to {len(own)} scrapes ({reasons}); nothing is known of those "
        "moments",
        at=own[0].at,
    )

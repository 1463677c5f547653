"""How a deployment stands, in one word and the figures that it rests on. Pure.

The word is that of the worst: replicas, open incidents, and what became of the last minutes'
requests. `ok` is said of what was looked at; where nobody reports, the word is `no_data`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from controlplane.api.late_counts import LateCounts
from controlplane.api.trouble import About, Trouble
from controlplane.slo.burn_rate import percent

_WORST_FIRST = ("page", "ticket", "no_data", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """One thing that was looked at."""

    about: About
    severity: str
    """page, ticket, no_data or ok."""
    figure: str
    """In words, such as `115 of 140 rejected`."""
    window_seconds: float | None
    """That the figure is over; None: it is of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentState:
    """Of one deployment."""

    word: str = "no_data"
    """page, ticket, no_data or ok: the worst of its parts, and of what else is wrong with it."""
    parts: list[StatePart] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """What is known of one deployment beside its troubles."""

    num_ready: int
    num_desired: int
    incidents: Sequence[str]
    """What its open ones are called."""
    promised_share: float | None
    """By its contract; None: it has none."""
    half_hour: LateCounts
    """Of a longer window, for what is told of that."""
    is_reported: bool
    """Some gateway says now what it serves."""
    is_observed_only: bool = False
    """No request of it passes through here."""


def state_of(facts: StateFacts, late: LateCounts, troubles: Sequence[Trouble]) -> DeploymentState:
    """`late` is of the last minutes, `troubles` are all of the deployment."""
    parts = list(_parts(facts, late, troubles))
    found = {trouble.severity for trouble in troubles} | {part.severity for part in parts}
    if not facts.is_reported:
        found.add("no_data")
    return DeploymentState(word=min(found, key=_WORST_FIRST.index), parts=parts)


def _parts(facts: StateFacts, late: LateCounts, troubles: Sequence[Trouble]) -> Iterator[StatePart]:
    yield _part("replicas", f"{facts.num_ready} of {facts.num_desired} ready", None, troubles)
    yield _part("incidents", _incidents(facts.incidents), None, troubles)
    seconds = late.window_seconds
    if late.num_asked == 0:
        figure = "requests are not seen here" if facts.is_observed_only else "no requests"
        yield _part("requests", figure, seconds, troubles)
    else:
        of_all = f"of {late.num_asked}"
        yield _part("rejected", f"{late.num_rejected} {of_all} rejected", seconds, troubles)
        yield _part("failed", f"{late.num_failed} {of_all} failed", seconds, troubles)
    yield from _contract(facts, late, troubles)


def _contract(
    facts: StateFacts, late: LateCounts, troubles: Sequence[Trouble]
) -> Iterator[StatePart]:
    """Of the last minutes, unless it is the half hour that is troubled."""
    promised = facts.promised_share
    if promised is None:
        return
    over = {each.window_seconds for each in troubles if each.about == "in_contract"}
    counts = facts.half_hour if over and late.window_seconds not in over else late
    if counts.num_judged:
        kept = f"{counts.num_good} of {counts.num_judged} in contract"
        figure = f"{kept}, {percent(promised)} promised"
        yield _part("in_contract", figure, counts.window_seconds, troubles)


def _incidents(titles: Sequence[str]) -> str:
    if not titles:
        return "no incident is open"
    more = len(titles) - 1
    return f"{titles[0]}{f' and {more} more' if more else ''}"


def _part(
    about: About, figure: str, window_seconds: float | None, troubles: Sequence[Trouble]
) -> StatePart:
    found = [each.severity for each in troubles if each.about == about]
    return StatePart(
        about=about,
        severity=min(found, key=_WORST_FIRST.index, default="ok"),
        figure=figure,
        window_seconds=window_seconds,
    )

"""What the counts of the last minutes say is wrong with a deployment. Pure.

Replicas may all be ready while most of what callers ask is turned away, fails, or comes too late.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from controlplane.api.late_counts import LateCounts
from controlplane.api.trouble import ENOUGH_JUDGED, About, Trouble
from controlplane.slo.alert_windows import DAY, grades_of
from controlplane.slo.burn_rate import budget_of, percent
from controlplane.slo.event_counts import EventCounts

_MANY = 10
"""Requests that it happened to: of fewer nobody is woken, and no share is told."""
_PERIOD = 30 * DAY
_PAGE_BURN = grades_of(_PERIOD)[0].factor(_PERIOD)
"""Of the most urgent grade, from which on a budget of 30 days would be spent in two."""
_MOST = Decimal("0.5")
"""Half of all missed is a page whatever was promised: 14.4 times 10 % is never reached."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Shares of what was asked."""

    page: float
    ticket: float


_REJECTED = _Bounds(page=0.5, ticket=0.1)
"""Some is turned away wherever callers have limits of their own."""
_FAILED = _Bounds(page=0.2, ticket=0.05)


def late_troubles(name: str, counts: LateCounts, promised_share: float | None) -> list[Trouble]:
    """Of the deployment `name`, whose contract promises `promised_share`; None: it has none."""
    return [
        *_of_rejected(name, counts),
        *_of_failed(name, counts),
        *_of_contract(name, counts, promised_share),
    ]


def _of_rejected(name: str, counts: LateCounts) -> Iterator[Trouble]:
    severity = _severity(counts.num_rejected, counts.num_asked, _REJECTED)
    if severity is None:
        return
    whose = _of_one_tenant(counts)
    remedy = (
        f"See which limit refused them: `pilothouse requests --deployment {name} --disposition "
        "rejected --since 5m`; the runbook overload says what to do."
    )
    if whose and severity == "page":
        severity = "ticket"
    what = f"{_share(name, 'rejected', counts.num_rejected, counts)}{whose}"
    yield _trouble(name, "rejected", severity, what, remedy, counts)


def _of_one_tenant(counts: LateCounts) -> str:
    """A caller over its own limits hurts nobody else, and nobody is woken for it."""
    tenant = counts.most_refused
    if tenant is None:
        return ""
    others, refused = counts.num_asked - tenant.num_asked, counts.num_rejected - tenant.num_rejected
    if others <= 0 or refused >= _REJECTED.ticket * others:
        return ""
    number = tenant.num_rejected if refused else "all"
    return f", {number} of them of {tenant.name or 'callers without a tenant'}"


def _of_failed(name: str, counts: LateCounts) -> Iterator[Trouble]:
    severity = _severity(counts.num_failed, counts.num_asked, _FAILED)
    if severity is not None:
        remedy = f"See why, one by one: `pilothouse requests --deployment {name} --since 5m`."
        what = _share(name, "failed", counts.num_failed, counts)
        yield _trouble(name, "failed", severity, what, remedy, counts)


def _severity(number: int, asked: int, bounds: _Bounds) -> str | None:
    """None: nothing is to be told. `no_data` of what looks bad and may be chance."""
    if number >= _MANY and number >= bounds.ticket * asked:
        return "page" if number >= bounds.page * asked else "ticket"
    return "no_data" if 0 < number < _MANY and number >= bounds.page * asked else None


def _share(name: str, verb: str, number: int, counts: LateCounts) -> str:
    doubt = "" if number >= _MANY else ": too few to tell"
    return f"{name} {verb} {number} of {counts.num_asked} requests of {_last(counts)}{doubt}"


def _of_contract(name: str, counts: LateCounts, promised: float | None) -> Iterator[Trouble]:
    judged, good = counts.num_judged, counts.num_good
    events = EventCounts(good=good, total=judged)
    if promised is None or judged < ENOUGH_JUDGED or events.bad < _MANY:
        return
    budget = budget_of(promised)
    if events.bad <= budget * judged:
        return
    is_fast = events.bad >= min(_PAGE_BURN * budget, _MOST) * judged
    what = (
        f"{name} kept its contract for {good / judged:.1%} of {judged} requests of "
        f"{_last(counts)}, {percent(promised)} are promised"
    )
    remedy = "Look at the requests that missed it: their waterfalls say in which phase."
    severity = "page" if is_fast else "ticket"
    yield _trouble(name, "in_contract", severity, what, remedy, counts)


def _last(counts: LateCounts) -> str:
    return f"the last {counts.window_seconds // 60:.0f} min"


def _trouble(
    name: str, about: About, severity: str, what: str, remedy: str, counts: LateCounts
) -> Trouble:
    return Trouble(
        severity=severity,
        what=what,
        remedy=remedy,
        deployment=name,
        about=about,
        window_seconds=counts.window_seconds,
    )

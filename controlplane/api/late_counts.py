"""What became of the requests of the last minutes, by the exact counts."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from controlplane.store.requests import count_since
from controlplane.store.tenant_counts import count_by_tenant
from dataplane.lifecycle import BROKEN, REFUSED

LATE_SECONDS = 300
"""Long enough for shares at a request every few seconds, short enough to be now."""
_GOOD, _JUDGED = "in_contract.good", "in_contract.total"
_OFFERED, _INVALID = "offered", "disposition.invalid"
_REFUSED = tuple(f"disposition.{each.value}" for each in sorted(REFUSED))
_BROKEN = tuple(f"disposition.{each.value}" for each in sorted(BROKEN))


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTenant:
    """The one of which most requests were turned away, where there are others."""

    name: str
    num_asked: int
    num_rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCounts:
    """Of one deployment. Requests are counted when they have ended, by when they arrived: what is
    under way is not among them."""

    window_seconds: float = LATE_SECONDS
    """Whole minutes, and the one that is not over."""
    num_asked: int = 0
    """Malformed ones aside."""
    num_rejected: int = 0
    """Turned away, on arrival or while they waited."""
    num_failed: int = 0
    """Taken, and got no whole answer though their clients waited for it."""
    num_judged: int = 0
    """By a contract."""
    num_good: int = 0
    """Of the judged ones, those in contract."""
    most_refused: RefusedTenant | None = None
    """None: nobody was refused, or there is one tenant alone."""


def read_late_counts(session: Session, now_unix_ns: int) -> dict[str, LateCounts]:
    """By deployment, of all that had requests."""
    since = now_unix_ns // 10**9 - LATE_SECONDS
    since -= since % 60
    measures = (_OFFERED, _INVALID, _GOOD, _JUDGED, *_REFUSED, *_BROKEN)
    return {
        name: LateCounts(
            window_seconds=now_unix_ns / 1e9 - since,
            num_asked=_asked(counts),
            num_rejected=(rejected := _rejected(counts)),
            num_failed=sum(counts.get(measure, 0) for measure in _BROKEN),
            num_judged=counts.get(_JUDGED, 0),
            num_good=counts.get(_GOOD, 0),
            most_refused=_most_refused(session, name, since) if rejected else None,
        )
        for name, counts in count_since(session, since, measures).items()
    }


def _most_refused(session: Session, deployment: str, since: int) -> RefusedTenant | None:
    by_tenant = count_by_tenant(session, deployment, since, (_OFFERED, _INVALID, *_REFUSED))
    if len(by_tenant) < 2:
        return None
    name = max(by_tenant, key=lambda tenant: _rejected(by_tenant[tenant]))
    counts = by_tenant[name]
    return RefusedTenant(name=name, num_asked=_asked(counts), num_rejected=_rejected(counts))


def _asked(counts: Mapping[str, int]) -> int:
    return counts.get(_OFFERED, 0) - counts.get(_INVALID, 0)


def _rejected(counts: Mapping[str, int]) -> int:
    return sum(counts.get(measure, 0) for measure in _REFUSED)

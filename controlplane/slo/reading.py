"""How the promises of deployments stand, from the control plane's own exact counts.

The same arithmetic as Prometheus does with our rules, for whoever has none. Both count a request
when it ended and was judged; see `tally` for where windows begin and end.
"""

import threading
from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from controlplane.slo.alert_windows import BURN_WINDOWS, HOUR, MINUTE
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.promised import Promise
from controlplane.slo.standing import Standing, standing_of
from controlplane.slo.tally import CountsByKey, Tally
from controlplane.store.heard import first_heard, heard_of
from controlplane.store.objective_counts import ObjectiveKey

SEEN_SECONDS = 5 * MINUTE
"""Gateways report every few seconds: without any for so long, nobody sees what callers get."""
_FIRST_HEARD_EVERY = HOUR


class StandingReader:
    """Keeps what it read, so that the next reading costs little. Several threads may read."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._lock = threading.Lock()
        self._first_heard: dict[str, int | None] = {}
        self._first_heard_unix = 0

    def note_changed(self, minute_unix: int) -> None:
        """Counts of that minute were added to, which may be long over."""
        self._tally.note_changed(minute_unix)

    def read(self, session: Session, promises: Sequence[Promise], now_unix: int) -> list[Standing]:
        """Of all `promises`, in their order."""
        if not promises:
            return []
        with self._lock:
            periods = {round(promise.period_seconds) for promise in promises}
            self._tally.refresh(session, now_unix, max(*BURN_WINDOWS, *periods))
            counts = {
                seconds: self._tally.counts(now_unix, seconds)
                for seconds in {*BURN_WINDOWS, *periods}
            }
            names = {promise.deployment for promise in promises}
            seen = _seen(session, names, counts[SEEN_SECONDS], now_unix)
            since = self._since(session, names, now_unix)
        return [
            standing_of(
                promise,
                {seconds: _of(promise, counts[seconds]) for seconds in BURN_WINDOWS},
                _of(promise, counts[round(promise.period_seconds)]),
                is_seen=promise.deployment in seen,
                covered_seconds=_covered(promise, since[promise.deployment], now_unix),
            )
            for promise in promises
        ]

    def _since(
        self, session: Session, deployments: Iterable[str], now_unix: int
    ) -> dict[str, int | None]:
        """Retention moves the beginning, slowly; what was heard of never is asked for again."""
        if not 0 <= now_unix - self._first_heard_unix < _FIRST_HEARD_EVERY:
            self._first_heard, self._first_heard_unix = {}, now_unix
        for name in deployments:
            if self._first_heard.get(name) is None:
                self._first_heard[name] = first_heard(session, name)
        return self._first_heard


def read_standings(session: Session, promises: Sequence[Promise], now_unix: int) -> list[Standing]:
    """Once, of all `promises`, in their order."""
    return StandingReader().read(session, promises, now_unix)


def seen_deployments(session: Session, deployments: set[str], now_unix: int) -> set[str]:
    """Those that a gateway told of lately. One that is heard and does not serve a deployment says
    nothing of it."""
    minute = now_unix - now_unix % MINUTE
    # What lies far ahead was heard before the clock was set back.
    return heard_of(session, deployments, minute - SEEN_SECONDS, minute + SEEN_SECONDS)


def _seen(
    session: Session, deployments: set[str], late: CountsByKey, now_unix: int
) -> frozenset[str]:
    """Those, and whose requests were counted."""
    counted = {key.deployment for key in late}
    return frozenset((counted & deployments) | seen_deployments(session, deployments, now_unix))


def _of(promise: Promise, counts: CountsByKey) -> EventCounts:
    key = ObjectiveKey(promise.deployment, promise.request_class, promise.objective)
    return counts.get(key, NO_EVENTS)


def _covered(promise: Promise, since_unix: int | None, now_unix: int) -> float | None:
    if since_unix is None:
        return None
    return min(promise.period_seconds, max(0.0, now_unix - since_unix))

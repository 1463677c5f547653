"""How the promises of deployments stand, from the control plane's own exact counts.

The same arithmetic as Prometheus does with our rules, for whoever has none. Counts are by the
minute in which a request arrived, so a window begins with a whole minute and ends with the one
under way.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from controlplane.slo.alert_windows import BURN_WINDOWS, MINUTE
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.promised import Promise
from controlplane.slo.standing import Standing, standing_of
from controlplane.store.objective_counts import ObjectiveKey, read_objective_counts
from controlplane.store.series import SeriesSpan, heard_buckets

SEEN_SECONDS = 5 * MINUTE
"""Gateways report every few seconds: without any for so long, nobody sees what callers get."""

CountsByKey = dict[ObjectiveKey, EventCounts]


def read_standings(session: Session, promises: Sequence[Promise], now_unix: int) -> list[Standing]:
    """Of all `promises`, in their order."""
    names = {promise.deployment for promise in promises}
    only = names.pop() if len(names) == 1 else None
    windows = {seconds: _read(session, now_unix, seconds, only) for seconds in BURN_WINDOWS}
    periods = {
        seconds: _read(session, now_unix, seconds, only)
        for seconds in sorted({round(promise.period_seconds) for promise in promises})
    }
    is_seen = _is_seen(session, now_unix)
    return [
        standing_of(
            promise,
            {seconds: _of(promise, counts) for seconds, counts in windows.items()},
            _of(promise, periods[round(promise.period_seconds)]),
            is_seen=is_seen,
        )
        for promise in promises
    ]


def _read(session: Session, now_unix: int, seconds: int, deployment: str | None) -> CountsByKey:
    start, end = _whole_minutes(now_unix, seconds)
    counts = read_objective_counts(session, start, end, deployment)
    return {key: EventCounts(good=found.good, total=found.total) for key, found in counts.items()}


def _whole_minutes(now_unix: int, seconds: int) -> tuple[int, int]:
    """The minutes of a window, the one under way as its last."""
    end = now_unix - now_unix % MINUTE + MINUTE
    return end - max(MINUTE, seconds - seconds % MINUTE), end


def _of(promise: Promise, counts: CountsByKey) -> EventCounts:
    key = ObjectiveKey(promise.deployment, promise.request_class, promise.objective)
    return counts.get(key, NO_EVENTS)


def _is_seen(session: Session, now_unix: int) -> bool:
    start, end = _whole_minutes(now_unix, SEEN_SECONDS)
    span = SeriesSpan(start_unix=start, end_unix=end, step_seconds=MINUTE)
    return bool(heard_buckets(session, span))


def promises_by_deployment(promises: Iterable[Promise]) -> dict[str, list[Promise]]:
    """In their order."""
    grouped: dict[str, list[Promise]] = {}
    for promise in promises:
        grouped.setdefault(promise.deployment, []).append(promise)
    return grouped

"""Telling live pages that something changed, without telling them what: they ask again.

A number that grows; who watches compares it with the last one seen. Nothing is queued for a
watcher, so a slow one holds nothing and misses nothing that matters.
"""

import threading

from starlette.datastructures import State

from controlplane.operator.observed import ObservedState


class ChangeCounter:
    """How often request data changed in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0

    @property
    def number(self) -> int:
        """Grows with every change."""
        return self._number

    def note(self) -> None:
        """Something was stored."""
        with self._lock:
            self._number += 1


def request_changes(state: State) -> ChangeCounter:
    """The application's counter."""
    counter: ChangeCounter = state.request_changes
    return counter


def observed_mark(observed: ObservedState) -> int:
    """Differs whenever the overview would look different, apart from ages."""
    gateways = tuple(
        (
            report.gateway_id,
            report.snapshot_version,
            report.snapshot_error,
            report.num_queued,
            report.counts.active,
            report.is_draining,
            age < STALE_SECONDS,
        )
        for report, age in observed.gateways()
    )
    replicas = tuple((r.replica_id, r.state, r.stage) for r in observed.replicas())
    overrides = tuple(each.override_id for each in observed.overrides())
    silences = tuple(each.silence_id for each in observed.silences())
    strays = tuple((each.stray_id, each.ended_at_unix_ns) for each in observed.strays())
    return hash((gateways, replicas, overrides, silences, strays))


STALE_SECONDS = 10.0
"""A gateway reports every second; what is older than this is no longer called current."""

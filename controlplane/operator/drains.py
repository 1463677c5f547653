"""Drains: when a replica may go, and how it is let go of, told to end, and at last forced to."""

import functools
import math
from collections.abc import Iterable

from controlplane.hooks import Launcher
from controlplane.operator.attached import ATTACHED_LAUNCHERS, AttachedEndpoints
from controlplane.operator.calls import Calls
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.replica import Replica
from controlplane.operator.settings import OperatorSettings
from dataplane.clock import MonotonicClock


class Drains:
    """Takes every draining replica as far as it can go now. Never waits."""

    def __init__(
        self,
        plugins: InstalledPlugins,
        attached: AttachedEndpoints,
        observed: ObservedState,
        calls: Calls,
        settings: OperatorSettings,
        clock: MonotonicClock,
    ) -> None:
        self._plugins = plugins
        self._attached = attached
        self._observed = observed
        self._calls = calls
        self._settings = settings
        self._clock = clock
        self._took_over_at: float | None = None
        self._first_heard_at: float | None = None

    def take_over(self) -> None:
        """There is what an earlier control plane left, and gateways that have not reported yet."""
        self._took_over_at, self._first_heard_at = self._clock(), None

    def advance(self, replica: Replica) -> None:
        """The next step of a replica whose state is DRAINING, if it is time for it."""
        waited = self._clock() - replica.since_at
        if replica.launcher in ATTACHED_LAUNCHERS:
            if self._has_left(replica, waited):
                self._attached.stop(replica.replica_id)
            return
        launcher = self._plugins.get_launcher(replica.launcher)
        if not replica.is_told_to_end and self._has_left(replica, waited):
            self._end(replica, launcher, is_forced=False)
        if not replica.is_forced_to_end and waited > self._patience_with(replica):
            self._end(replica, launcher, is_forced=True)

    def find_unreached(self, replicas: Iterable[Replica]) -> set[str]:
        """Ids of those that became ready, and that some gateway is not connected to and had no time
        to: what they are to take the place of may not go yet."""
        now, is_unheard = self._clock(), self._is_unheard()
        patience = math.inf if is_unheard else self._settings.leave_seconds
        young = {
            each.replica_id
            for each in replicas
            if each.ready_at is not None
            and now - each.ready_at <= patience
            and each.launcher not in ATTACHED_LAUNCHERS
        }
        if not young or is_unheard:
            return young
        fresh = self._settings.fresh_report_seconds
        reached = [
            {each.replica_id for each in report.replicas if each.is_connected}
            for report, age in self._observed.gateways()
            if age <= fresh
        ]
        return {each for each in young if not all(each in connected for connected in reached)}

    def _end(self, replica: Replica, launcher: Launcher, *, is_forced: bool) -> None:
        """Queued behind whatever else is asked of launchers for its deployment."""

        def note(error: str | None) -> None:
            if error is None:
                replica.is_told_to_end = True
                replica.is_forced_to_end |= is_forced

        forced = " by force" if is_forced else ""
        act = functools.partial(launcher.stop, replica.replica_id, is_forced=is_forced)
        what = f"end of {replica.replica_id}{forced}"
        self._calls.put(replica.spec.deployment, what, act, note)

    def _patience_with(self, replica: Replica) -> float:
        return self._settings.leave_seconds if replica.is_hung else self._settings.force_seconds

    def _has_left(self, replica: Replica, waited: float) -> bool:
        """No gateway sends it anything new."""
        if replica.ready_at is not None and self._is_unheard():
            return False
        if replica.ready_at is None or waited > self._settings.leave_seconds:
            return True
        version = replica.has_left_at_version
        if version is None:
            return False
        fresh = self._settings.fresh_report_seconds
        return all(
            report.snapshot_version >= version or age > fresh
            for report, age in self._observed.gateways()
        )

    def _is_unheard(self) -> bool:
        """Gateways may be there that have not reported since it took over: the operator begins
        before anybody can call, and what they still send where nobody knows."""
        if self._took_over_at is None:
            return False
        now = self._clock()
        if self._first_heard_at is None and self._observed.gateways():
            self._first_heard_at = now
        heard = self._first_heard_at
        is_time_over = now - self._took_over_at > self._settings.return_seconds
        if is_time_over or (heard is not None and now - heard > self._settings.leave_seconds):
            self._took_over_at = None
        return self._took_over_at is not None

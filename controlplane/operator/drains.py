"""Drains: how a replica that is to end is let go of, told to end, and at last forced to."""

from controlplane.operator.attached import ATTACHED_LAUNCHERS, AttachedEndpoints
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
        settings: OperatorSettings,
        clock: MonotonicClock,
    ) -> None:
        self._plugins = plugins
        self._attached = attached
        self._observed = observed
        self._settings = settings
        self._clock = clock

    def advance(self, replica: Replica) -> None:
        """The next step of a replica whose state is DRAINING, if it is time for it."""
        waited = self._clock() - replica.since_at
        if replica.launcher in ATTACHED_LAUNCHERS:
            if self._has_left(replica, waited):
                self._attached.stop(replica.replica_id)
            return
        launcher = self._plugins.get_launcher(replica.launcher)
        if not replica.is_told_to_end and self._has_left(replica, waited):
            launcher.stop(replica.replica_id)
            replica.is_told_to_end = True
        if not replica.is_forced_to_end and waited > self._patience_with(replica):
            launcher.stop(replica.replica_id, is_forced=True)
            replica.is_forced_to_end = True

    def _patience_with(self, replica: Replica) -> float:
        return self._settings.leave_seconds if replica.is_hung else self._settings.force_seconds

    def _has_left(self, replica: Replica, waited: float) -> bool:
        """No gateway sends it anything new."""
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

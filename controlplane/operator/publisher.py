"""Numbers the gateways' snapshot and hands it on.

It grows only when the content changes, and is kept in the database, so that a restart changes
nothing for a gateway. Where the database was lost while gateways ran on, counting goes on above
what they say they enforce: else an old number would look as if the new snapshot had arrived.
What no counting ever reaches is not followed: one false report must not use the numbers up.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.observed import ObservedState
from controlplane.operator.replica import Replica
from controlplane.operator.served_policies import ServedPolicies
from controlplane.operator.snapshot import (
    build_snapshot,
    enforced_overrides,
    read_keys,
    read_running_models,
    snapshot_digest,
)
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.overrides import end_what_is_over, has_what_is_over, list_in_force
from controlplane.store.silences import list_not_over
from controlplane.store.snapshot_versions import version_of
from dataplane.clock import WallClock
from dataplane.policy import DeploymentPolicy, Snapshot, TenantPolicy

MAX_FOLLOWED_VERSION = 2**40
"""A new snapshot every millisecond takes thirty years to get there."""
MAX_REPORTED_VERSION = 2 * MAX_FOLLOWED_VERSION
"""What a report may say: above what is followed there is room to go on counting."""


class SnapshotPublisher:
    """Belongs to one reconciler, and to its thread."""

    def __init__(
        self, database: Database, observed: ObservedState, feed: SnapshotFeed, wall: WallClock
    ) -> None:
        self._database = database
        self._observed = observed
        self._feed = feed
        self._wall = wall
        self._published: Snapshot | None = None
        """Without its number."""
        self._served = ServedPolicies()
        self._version = 0
        self._policies: dict[str, DeploymentPolicy] = {}

    def publish(
        self,
        deployments: Sequence[DesiredDeployment],
        tenants: tuple[TenantPolicy, ...],
        replicas: Sequence[Replica],
        unreadable: Collection[str] = (),
    ) -> int:
        """The version that says what is now; published when it is a new one.

        Of `unreadable` deployments it says again what it said when they could be read.
        """
        now = self._wall()
        with self._database.reading() as session:
            models = read_running_models(session, deployments, replicas)
            keys = read_keys(session)
            overrides = list_in_force(session, now)
            has_ends = has_what_is_over(session, now)
            silences = list_not_over(session, now)
        if has_ends:
            with self._database.session() as session:
                end_what_is_over(session, clock=self._wall)
        self._observed.set_overrides(overrides)
        self._observed.set_silences(silences)
        kept = [self._policies[name] for name in unreadable if name in self._policies]
        snapshot = build_snapshot(
            deployments,
            tenants,
            keys,
            replicas,
            models,
            self._served,
            kept,
            enforced_overrides(overrides),
        )
        self._policies = {each.name: each for each in snapshot.deployments}
        enforced = self._followed()
        if snapshot != self._published or enforced > self._version:
            digest = snapshot_digest(snapshot)
            with self._database.session() as session:
                version = version_of(session, digest, self._wall(), at_least=enforced)
            self._feed.publish(replace(snapshot, version=version))
            # Last: a pass that fails before it has published nothing, and the next one tries again.
            self._published, self._version = snapshot, version
        return self._version

    def _followed(self) -> int:
        """The newest version that a gateway enforces, of those that counting could have given."""
        versions = [report.snapshot_version for report, _ in self._observed.gateways()]
        return max((each for each in versions if each <= MAX_FOLLOWED_VERSION), default=0)

"""One pass of the operator: observe, catch up, plan the difference, act, tell.

Level-triggered: each pass looks at everything anew, so an event that nobody noticed and a
step that failed are made good by the next pass. What a launcher shows decides over what the
database says; ids are entered in the database before anything is started under them.

No pass waits for a launcher: it is called from a queue of the deployment that needs it, and what
came of that is taken in by a later pass. So a deployment whose launcher hangs or fails waits alone.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

from controlplane.operator.attached import (
    ATTACHED,
    ATTACHED_LAUNCHERS,
    OBSERVED,
    AttachedEndpoints,
    is_attached,
    why_ready,
)
from controlplane.operator.backoff import Backoff
from controlplane.operator.by_arm import by_arm
from controlplane.operator.calls import Calls
from controlplane.operator.catch_up import CatchUp
from controlplane.operator.desired import DesiredReplicas, desired_arms
from controlplane.operator.drains import Drains
from controlplane.operator.faults import Faults
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.plan import Plan, Start, Stop, plan_replicas
from controlplane.operator.probes import Probes
from controlplane.operator.publisher import SnapshotPublisher
from controlplane.operator.replica import Replica
from controlplane.operator.roster import Roster
from controlplane.operator.settings import OperatorSettings
from controlplane.operator.sight import Sight, Sighting
from controlplane.operator.snapshot import read_tenants
from controlplane.operator.strays import Strays
from controlplane.store.database import Database
from controlplane.store.deployments import (
    DesiredDeployment,
    list_readable_deployments,
    set_observed_generation,
)
from controlplane.store.replicas import ReplicaState
from dataplane.clock import MonotonicClock, WallClock, monotonic_clock, wall_clock
from dataplane.engine import EngineProcess
from dataplane.policy import TenantPolicy

_SIGHT_SECONDS = 0.05
"""How long a pass waits for what launchers show: most answer at once."""


class Reconciler:
    """Brings about what is desired, pass by pass. One thread calls it."""

    def __init__(
        self,
        database: Database,
        plugins: InstalledPlugins,
        observed: ObservedState,
        feed: SnapshotFeed,
        probes: Probes,
        calls: Calls,
        settings: OperatorSettings | None = None,
        clock: MonotonicClock = monotonic_clock,
        wall: WallClock = wall_clock,
    ) -> None:
        settings = settings or OperatorSettings()
        self._database = database
        self._plugins = plugins
        self._observed = observed
        self._calls = calls
        self._clock = clock
        self._wall = wall
        self._faults = Faults()
        self._attached = AttachedEndpoints()
        self._drains = Drains(plugins, self._attached, observed, calls, settings, clock)
        self._backoff = Backoff(clock)
        self._roster = Roster(database, clock, wall)
        self._sight = Sight(plugins, self._attached, self._roster, self._faults, calls, clock, wall)
        self._strays = Strays(plugins, self._roster, self._faults, calls, settings, clock, wall)
        self._catch_up = CatchUp(
            plugins, observed, self._roster, self._sight, self._attached, self._faults,
            self._backoff, probes, settings, clock, wall,
        )  # fmt: skip
        self._publisher = SnapshotPublisher(database, observed, feed, wall)
        self._tenants: tuple[TenantPolicy, ...] = ()
        self._unreadable: dict[str, str] = {}
        self.holds: dict[str, str] = {}
        """Deployments that lack replicas and get none now, with the reason."""
        self.failures: dict[str, int] = {}
        """How many replicas of a deployment failed in a row; those with none are left out."""
        self.retries: dict[str, int] = {}
        """When what held a deployment is tried again, in Unix nanoseconds, where that is known."""
        self.candidate_holds: dict[int, str] = {}
        """Why candidates get no replica now, by rollout."""
        self.candidate_failures: dict[int, int] = {}
        """The same of candidates, by rollout."""

    @property
    def replicas(self) -> list[Replica]:
        """Every replica that has not ended, by id."""
        return self._roster.replicas

    def reconcile(self) -> bool:
        """One pass. True while something is under way that should be looked at again soon."""
        self._faults.begin()
        deployments, desired = self._read_desired()
        if not self._roster.is_recalled:
            self._recall()
        sightings = self._observe(desired)
        desired = [self._with_sight(each) for each in desired]
        with self._roster.together():
            self._catch_up.with_sightings(sightings)
            self._catch_up.with_probes()
            self._catch_up.with_intruders(self._strays.intruded())
        plan = self._plan(desired)
        self._begin_stops(plan.stops)
        self._advance_drains()
        self._begin_starts(plan.starts, desired)
        self._count_failures(desired, plan)
        self._tell(plan, deployments, desired)
        unsettled = (ReplicaState.STARTING, ReplicaState.DRAINING)
        return any(replica.state in unsettled for replica in self.replicas)

    # --- observe ---------------------------------------------------------------------

    def _read_desired(self) -> tuple[list[DesiredDeployment], list[DesiredReplicas]]:
        """Of deployments that cannot be read, or understood, what runs goes on as it is."""
        with self._database.reading() as session:
            self._tenants = read_tenants(session)
            readable, self._unreadable = list_readable_deployments(session)
        deployments, desired = [], []
        for each in readable:
            try:
                arms = desired_arms(each)
            except Exception as error:  # noqa: BLE001  (it must cost no other deployment)
                self._unreadable[each.name] = f"what it stands for cannot be said: {error!r}"
            else:
                deployments.append(each)
                desired += [self._with_plugins(arm) for arm in arms]
        for name, why in self._unreadable.items():
            self._faults.note(name, why)
        return deployments, desired

    def _with_plugins(self, desired: DesiredReplicas) -> DesiredReplicas:
        """Name what keeps a deployment from starting, and mark attached endpoints."""
        try:
            process = self._plugins.find_engine_process(desired.template.engine)
            if is_attached(desired.template.artifact, process):
                # One endpoint is one replica, whatever number was asked for.
                number = min(desired.num_replicas, 1)
                launcher = OBSERVED if desired.is_observed_only else ATTACHED
                return replace(desired, launcher=launcher, num_replicas=number)
            self._plugins.get_launcher(desired.launcher)
        except Exception as error:  # noqa: BLE001  (a plugin may raise anything)
            return replace(desired, problem=desired.problem or str(error) or repr(error))
        return desired

    def _recall(self) -> None:
        """Take over what an earlier control plane had, as the database knows it."""
        self._roster.recall()
        if self.replicas:
            self._drains.take_over()
        for replica in self.replicas:
            if (
                replica.launcher in ATTACHED_LAUNCHERS
                and replica.state is not ReplicaState.DRAINING
            ):
                self._attached.attach(replica.spec)

    def _observe(self, desired: Sequence[DesiredReplicas]) -> dict[str, Sighting]:
        """What launchers showed, once it is told what came of earlier calls."""
        names = {each.launcher for each in desired if each.problem is None}
        names |= {replica.launcher for replica in self.replicas}
        self._sight.ask(names)
        self._strays.look(names)
        self._calls.wait(_SIGHT_SECONDS)
        self._calls.settle()
        return self._sight.take(names)

    def _with_sight(self, desired: DesiredReplicas) -> DesiredReplicas:
        """Nothing more is started while nobody can say what runs already."""
        fault = self._faults.find_of_launcher(desired.launcher)
        return desired if fault is None else replace(desired, problem=desired.problem or fault)

    # --- plan and act ----------------------------------------------------------------

    def _plan(self, desired: Sequence[DesiredReplicas]) -> Plan:
        holds = {
            each.lane: hold
            for each in desired
            if (hold := self._backoff.find_hold(each.lane, each.digest)) is not None
        }
        unreached = self._drains.find_unreached(self.replicas)
        actual = [
            each.actual(is_reached=each.replica_id not in unreached) for each in self.replicas
        ]
        return plan_replicas(desired, actual, holds, self._unreadable)

    def _count_failures(self, desired: Sequence[DesiredReplicas], plan: Plan) -> None:
        now = self._clock()
        latest: dict[str, float] = {}
        for replica in self.replicas:
            ready_at = now if replica.ready_at is None else replica.ready_at
            latest[replica.lane] = max(ready_at, latest.get(replica.lane, ready_at))
        for lane in plan.settled:
            self._backoff.note_all_ready(lane, now - latest.get(lane, now))
        counted = {
            each.lane: number
            for each in desired
            if (number := self._backoff.num_failures(each.lane, each.digest))
        }
        self.failures, self.candidate_failures = by_arm(counted, desired)

    def _begin_stops(self, stops: Sequence[Stop]) -> None:
        with self._roster.together():
            for stop in stops:
                self._roster.drain(self._roster.get(stop.replica_id), stop.reason)

    def _advance_drains(self) -> None:
        for replica in self.replicas:
            if replica.state is ReplicaState.DRAINING:
                what = f"{replica.replica_id} cannot be ended"
                with self._faults.of_deployment(replica.spec.deployment, what):
                    self._drains.advance(replica)

    def _begin_starts(self, starts: Sequence[Start], desired: Sequence[DesiredReplicas]) -> None:
        by_lane = {each.lane: each for each in desired}
        entered: list[Replica] = []
        with self._roster.together():
            for start in starts:
                lane = by_lane[start.lane]
                with self._faults.of_deployment(lane.deployment, "a start"):
                    entered.append(self._roster.enter_new(lane, start.reason))
        with self._roster.together():
            for replica in entered:
                with self._faults.of_deployment(replica.spec.deployment, "a start"):
                    self._start(replica)

    def _start(self, replica: Replica) -> None:
        spec = replica.spec
        process = self._plugins.find_engine_process(spec.engine)
        if process is None or replica.launcher in ATTACHED_LAUNCHERS:
            self._attached.attach(spec)
            replica.address, replica.launched_at = spec.artifact, self._clock()
            is_observed = replica.launcher == OBSERVED
            self._roster.make_ready(replica, why_ready(spec, is_observed, process))
        else:
            self._launch(replica, process)

    def _launch(self, replica: Replica, process: EngineProcess) -> None:
        """Queued behind whatever else is asked of launchers for its deployment."""
        launcher = self._plugins.get_launcher(replica.launcher)

        def note(error: str | None) -> None:
            replica.launched_at = self._clock()
            if error is not None:
                self._catch_up.note_end(replica, f"it could not be started: {error}", None)

        what = f"launch of {replica.replica_id}"
        act = functools.partial(launcher.launch, replica.spec, process)
        self._calls.put(replica.spec.deployment, what, act, note, is_retried=False)

    # --- tell ------------------------------------------------------------------------

    def _tell(
        self,
        plan: Plan,
        deployments: Sequence[DesiredDeployment],
        desired: Sequence[DesiredReplicas],
    ) -> None:
        version = self._publisher.publish(
            deployments, self._tenants, self.replicas, self._unreadable
        )
        for replica in self.replicas:
            if replica.state is ReplicaState.DRAINING and replica.has_left_at_version is None:
                replica.has_left_at_version = version
        self._note_settled(plan, deployments)
        now = self._wall()
        self._observed.set_strays(self._strays.all, self._strays.unseen)
        find_look = self._observed.find_look
        self._observed.set_replicas(
            [replica.observed(find_look(replica.replica_id)) for replica in self.replicas]
        )
        holds = {**self._faults.by_deployment, **self._calls_of(deployments), **plan.holds}
        self.holds, self.candidate_holds = by_arm(holds, desired)
        self.retries = self._retries_of(desired, now)
        self._observed.set_failures(self.failures, self.holds)

    def _calls_of(self, deployments: Sequence[DesiredDeployment]) -> dict[str, str]:
        """What deployments wait for because a launcher fails or does not answer."""
        reasons, names = self._calls.reasons(), {each.name for each in deployments}
        return {name: why for name, why in reasons.items() if name in names}

    def _retries_of(self, desired: Sequence[DesiredReplicas], now_unix_ns: int) -> dict[str, int]:
        """Of what is held: the next start, else the next call of its launcher."""
        seconds = self._calls.retries()
        for each in desired:
            left = self._backoff.seconds_left(each.lane, each.digest)
            if each.lane in self.holds and left > 0:
                seconds[each.lane] = left
        return {
            name: now_unix_ns + int(left * 1e9)
            for name, left in seconds.items()
            if name in self.holds
        }

    def _note_settled(self, plan: Plan, deployments: Sequence[DesiredDeployment]) -> None:
        news = [
            each
            for each in deployments
            if each.name in plan.settled and each.observed_generation < each.generation
        ]
        if not news:
            return
        with self._database.session() as session:
            for each in news:
                set_observed_generation(session, each.name, each.generation)

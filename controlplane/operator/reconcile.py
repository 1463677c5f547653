"""One pass of the operator: observe, catch up, plan the difference, act, tell.

Level-triggered: each pass looks at everything anew, so an event that nobody noticed and a
step that failed are made good by the next pass. What a launcher shows decides over what the
database says; ids are entered in the database before anything is started under them.
"""

from collections.abc import Sequence
from dataclasses import replace

from controlplane.hooks import ReplicaObservation
from controlplane.operator.attached import (
    ATTACHED,
    ATTACHED_LAUNCHERS,
    ATTACHED_REASON,
    OBSERVED,
    AttachedEndpoints,
    is_attached,
    why_ready,
)
from controlplane.operator.backoff import Backoff
from controlplane.operator.by_arm import by_arm
from controlplane.operator.desired import DesiredReplicas, desired_arms
from controlplane.operator.drains import Drains
from controlplane.operator.faults import Faults
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.page_look import ANSWERED_AGAIN
from controlplane.operator.plan import Plan, Start, Stop, plan_replicas
from controlplane.operator.probes import ProbeResult, Probes
from controlplane.operator.publisher import SnapshotPublisher
from controlplane.operator.reach import REACHED_AGAIN, Reach
from controlplane.operator.replica import Replica
from controlplane.operator.roster import Roster
from controlplane.operator.settings import OperatorSettings
from controlplane.operator.sight import Sight
from controlplane.operator.snapshot import read_tenants
from controlplane.operator.vigil import Vigil
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


class Reconciler:
    """Brings about what is desired, pass by pass. One thread calls it."""

    def __init__(
        self,
        database: Database,
        plugins: InstalledPlugins,
        observed: ObservedState,
        feed: SnapshotFeed,
        probes: Probes,
        settings: OperatorSettings | None = None,
        clock: MonotonicClock = monotonic_clock,
        wall: WallClock = wall_clock,
    ) -> None:
        self._database = database
        self._plugins = plugins
        self._observed = observed
        self._probes = probes
        self._settings = settings or OperatorSettings()
        self._clock = clock
        self._wall = wall
        self._faults = Faults()
        self._vigil = Vigil(self._settings, clock)
        self._reach = Reach(self._settings, clock)
        self._attached = AttachedEndpoints()
        self._drains = Drains(plugins, self._attached, observed, self._settings, clock)
        self._backoff = Backoff(clock)
        self._roster = Roster(database, clock, wall)
        self._sight = Sight(plugins, self._attached, self._roster, self._faults)
        self._publisher = SnapshotPublisher(database, observed, feed, wall)
        self._tenants: tuple[TenantPolicy, ...] = ()
        self._unreadable: dict[str, str] = {}
        self._is_first_pass = True  # until all that an earlier control plane left is judged
        self.holds: dict[str, str] = {}
        """Deployments that lack replicas and get none now, with the reason."""
        self.failures: dict[str, int] = {}
        """How many replicas of a deployment failed in a row; those with none are left out."""
        self.candidate_holds: dict[int, str] = {}
        """The same of candidates, by rollout."""
        self.candidate_failures: dict[int, int] = {}
        """The same of candidates, by rollout."""

    @property
    def replicas(self) -> list[Replica]:
        """Every replica that has not ended, by id."""
        return self._roster.replicas

    def reconcile(self) -> bool:
        """One pass. True while something is under way that should be looked at again soon."""
        self._faults.begin()
        deployments = self._read_deployments()
        desired = [self._with_plugins(arm) for each in deployments for arm in desired_arms(each)]
        if self._is_first_pass:
            self._recall()
        observations = self._observe(desired)
        desired = [self._with_sight(each) for each in desired]
        self._catch_up(observations)
        self._is_first_pass = False
        self._take_probe_results()
        plan = self._plan(desired)
        self._begin_stops(plan.stops)
        self._advance_drains()
        self._begin_starts(plan.starts, desired)
        self._count_failures(desired, plan)
        self._tell(plan, deployments, desired)
        unsettled = (ReplicaState.STARTING, ReplicaState.DRAINING)
        return any(replica.state in unsettled for replica in self.replicas)

    # --- observe ---------------------------------------------------------------------

    def _read_deployments(self) -> list[DesiredDeployment]:
        with self._database.reading() as session:
            self._tenants = read_tenants(session)
            deployments, self._unreadable = list_readable_deployments(session)
        for name, why in self._unreadable.items():
            self._faults.note(name, why)
        return deployments

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
        for replica in self.replicas:
            if (
                replica.launcher in ATTACHED_LAUNCHERS
                and replica.state is not ReplicaState.DRAINING
            ):
                self._attached.attach(replica.spec)

    def _observe(self, desired: Sequence[DesiredReplicas]) -> dict[str, ReplicaObservation]:
        names = {each.launcher for each in desired if each.problem is None}
        names |= {replica.launcher for replica in self.replicas}
        return self._sight.observe(names)

    def _with_sight(self, desired: DesiredReplicas) -> DesiredReplicas:
        """Nothing more is started while nobody can say what runs already."""
        fault = self._faults.find_of_launcher(desired.launcher)
        return desired if fault is None else replace(desired, problem=desired.problem or fault)

    # --- catch up --------------------------------------------------------------------

    def _catch_up(self, observations: dict[str, ReplicaObservation]) -> None:
        self._vigil.read_reports(self._observed.gateways())
        self._reach.read_reports(self._observed.gateways())
        self._vigil.keep_only(replica.replica_id for replica in self.replicas)
        for replica in self.replicas:
            if (fault := self._faults.find_of_launcher(replica.launcher)) is not None:
                self._faults.note(replica.spec.deployment, fault)
                continue  # unseen is not gone
            observation = observations.get(replica.replica_id)
            if observation is None:
                self._note_end(replica, "its launcher does not know it any more", None)
                continue
            replica.note_status(observation.status, observation.pid)
            if not observation.is_alive:
                reason = observation.exit_reason or "its process is gone"
                stage = observation.status.stage if observation.status else None
                self._note_end(replica, reason, stage)
            elif self._is_first_pass:
                self._adopt(replica)
            elif replica.state is ReplicaState.STARTING:
                self._follow_start(replica)
            elif replica.state is ReplicaState.READY and replica.launcher not in ATTACHED_LAUNCHERS:
                self._keep_vigil(replica)
            elif replica.launcher == ATTACHED and self._reach.is_told(replica.replica_id):
                why = self._reach.why_unreachable(replica.replica_id)
                self._note_reach(replica, why, REACHED_AGAIN)
            elif replica.launcher == OBSERVED:
                self._note_look(replica)
            self._note_restart(replica)

    def _note_look(self, replica: Replica) -> None:
        """Its page is the only thing that shows whether it lives. One call in vain changes
        nothing."""
        look = self._observed.find_look(replica.replica_id)
        if look is None:
            return
        why = look.why_unreachable()
        if why is not None or look.is_answered:
            self._note_reach(replica, why, ANSWERED_AGAIN)

    def _note_restart(self, replica: Replica) -> None:
        """Of a server that somebody else runs. Told once it is reached, so that its history does
        not say that it was before."""
        restart = self._observed.find_restart(replica.replica_id)
        is_ours = replica.launcher not in ATTACHED_LAUNCHERS
        if is_ours or restart is None or restart == replica.restart:
            return
        if replica.state is ReplicaState.READY and replica.unreachable is None:
            self._roster.note_restart(replica, restart)

    def _note_reach(self, replica: Replica, why: str | None, back: str) -> None:
        if (why is None) != (replica.unreachable is None):
            self._roster.note_reach(replica, why, back)
        replica.unreachable = why

    def _keep_vigil(self, replica: Replica) -> None:
        if self._vigil.is_due(replica.replica_id):
            self._probe(replica, self._settings.silent_probe_seconds)

    def _adopt(self, replica: Replica) -> None:
        """A process of an earlier control plane lives on. One that was ready stays so: its
        streams run, and a snapshot without it would end them."""
        if replica.launcher in ATTACHED_LAUNCHERS:
            return
        self._roster.adopt(replica)
        if replica.state is ReplicaState.READY:
            self._probe(replica, self._settings.probe_seconds)

    def _follow_start(self, replica: Replica) -> None:
        if replica.launcher in ATTACHED_LAUNCHERS:
            self._roster.make_ready(replica, ATTACHED_REASON)
        elif replica.stage == "serving" and replica.address is not None:
            self._probe(replica, self._settings.probe_seconds)
        elif self._clock() - replica.since_at > self._settings.start_seconds:
            waited = f"{self._settings.start_seconds:g} s"
            self._give_up(replica, f"it did not serve within {waited}; stage {replica.stage}")

    def _probe(self, replica: Replica, seconds: float) -> None:
        spec = replica.spec
        with self._faults.of_deployment(spec.deployment, f"{replica.replica_id} cannot be probed"):
            process = self._plugins.find_engine_process(spec.engine)
            if process is not None and replica.address is not None:
                self._probes.start(spec, process, replica.address, seconds)

    def _take_probe_results(self) -> None:
        for result in self._probes.take_results():
            replica = self._roster.find(result.replica_id)
            if replica is not None and replica.state is not ReplicaState.DRAINING:
                self._note_probe(replica, result)

    def _note_probe(self, replica: Replica, result: ProbeResult) -> None:
        if result.seconds is None:
            self._note_failed_probe(replica, result.error or "it says not why")
            return
        replica.probed_at_unix_ns = self._wall()
        self._vigil.note_alive(replica.replica_id)
        if replica.state is ReplicaState.STARTING:
            milliseconds = result.seconds * 1000
            self._roster.make_ready(replica, f"a probe generated a token in {milliseconds:.0f} ms")

    def _note_failed_probe(self, replica: Replica, error: str) -> None:
        if replica.state is ReplicaState.STARTING:
            self._give_up(replica, f"its probe failed: {error}")
        elif (why := self._vigil.find_hang(replica.replica_id, error)) is not None:
            replica.is_hung = True
            self._give_up(replica, why)

    def _give_up(self, replica: Replica, why: str) -> None:
        """It was wanted and does not work: end it, and count its end as a failure."""
        self._roster.drain(replica, why)
        replica.failure = why

    def _note_end(self, replica: Replica, reason: str, stage: str | None) -> None:
        state, why = self._judge_end(replica, reason, stage)
        self._roster.strike(replica, state, why)
        if state is ReplicaState.FAILED:
            ready_at = replica.ready_at
            ready_seconds = None if ready_at is None else self._clock() - ready_at
            self._backoff.note_failure(replica.lane, replica.digest, why, ready_seconds)
        if replica.launcher in ATTACHED_LAUNCHERS:
            self._attached.forget(replica.replica_id)
            return
        with self._faults.of_deployment(replica.spec.deployment, f"end of {replica.replica_id}"):
            self._plugins.get_launcher(replica.launcher).forget(replica.replica_id)

    def _judge_end(
        self, replica: Replica, reason: str, stage: str | None
    ) -> tuple[ReplicaState, str]:
        if replica.failure is not None:
            return ReplicaState.FAILED, replica.failure
        if replica.state is ReplicaState.DRAINING:
            forced = " by force" if replica.is_forced_to_end else ""
            return ReplicaState.STOPPED, f"ended{forced}: {replica.reason}"
        if self._is_first_pass:
            how = "it was told to end" if stage == "draining" else reason
            return ReplicaState.STOPPED, f"ended while no control plane ran: {how}"
        if stage == "draining":
            return ReplicaState.STOPPED, f"somebody else told it to end: {reason}"
        return ReplicaState.FAILED, reason

    # --- plan and act ----------------------------------------------------------------

    def _plan(self, desired: Sequence[DesiredReplicas]) -> Plan:
        holds = {
            each.lane: hold
            for each in desired
            if (hold := self._backoff.find_hold(each.lane, each.digest)) is not None
        }
        actual = [replica.actual() for replica in self.replicas]
        return plan_replicas(desired, actual, holds, self._unreadable)

    def _count_failures(self, desired: Sequence[DesiredReplicas], plan: Plan) -> None:
        now = self._clock()
        for name in plan.settled:
            ready_ats = [r.ready_at for r in self.replicas if r.lane == name]
            latest = max((now if at is None else at for at in ready_ats), default=now)
            self._backoff.note_all_ready(name, now - latest)
        counted = {
            each.lane: number
            for each in desired
            if (number := self._backoff.num_failures(each.lane, each.digest))
        }
        self.failures, self.candidate_failures = by_arm(counted, desired)

    def _begin_stops(self, stops: Sequence[Stop]) -> None:
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
        for start in starts:
            self._start(by_lane[start.lane], start.reason)

    def _start(self, desired: DesiredReplicas, reason: str) -> None:
        replica = self._roster.enter_new(desired, reason)
        spec = replica.spec
        process = self._plugins.find_engine_process(spec.engine)
        if process is None or desired.launcher in ATTACHED_LAUNCHERS:
            self._attached.attach(spec)
            replica.address = spec.artifact
            is_observed = desired.launcher == OBSERVED
            self._roster.make_ready(replica, why_ready(spec, is_observed, process))
        else:
            self._launch(replica, process)

    def _launch(self, replica: Replica, process: EngineProcess) -> None:
        try:
            self._plugins.get_launcher(replica.launcher).launch(replica.spec, process)
        except Exception as error:  # noqa: BLE001  (a plugin may raise anything)
            why = str(error) or type(error).__name__
            self._note_end(replica, f"it could not be started: {why}", None)

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
        find_look = self._observed.find_look
        self._observed.set_replicas(
            [replica.observed(now, find_look(replica.replica_id)) for replica in self.replicas]
        )
        holds = {**self._faults.by_deployment, **plan.holds}
        self.holds, self.candidate_holds = by_arm(holds, desired)

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

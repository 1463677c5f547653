"""One pass of the operator: observe, catch up, plan the difference, act, tell.

Level-triggered: each pass looks at everything anew, so an event that nobody noticed and a
step that failed are made good by the next pass. What a launcher shows decides over what the
database says; ids are entered in the database before anything is started under them.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.orm import Session

from controlplane.hooks import ReplicaObservation
from controlplane.operator.attached import LAUNCHER as ATTACHED
from controlplane.operator.attached import AttachedEndpoints
from controlplane.operator.backoff import Backoff
from controlplane.operator.desired import DesiredReplicas, desired_replicas, spec_digest
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.plan import Plan, Start, Stop, plan_replicas
from controlplane.operator.probes import ProbeResult, Probes
from controlplane.operator.replica import Replica, from_store
from controlplane.operator.snapshot import (
    SnapshotFeed,
    build_snapshot,
    read_tenants,
    snapshot_digest,
)
from controlplane.store.database import Database
from controlplane.store.deployments import (
    DesiredDeployment,
    list_deployments,
    set_observed_generation,
)
from controlplane.store.replicas import (
    ReplicaState,
    add_replica,
    is_id_used,
    list_unended,
    move_replica,
    note_adoption,
    set_addresses,
)
from controlplane.store.snapshot_versions import version_of
from dataplane.clock import MonotonicClock, WallClock, monotonic_clock, wall_clock
from dataplane.engine import EngineProcess, ReplicaSpec
from dataplane.plugins import PluginError
from dataplane.policy import TenantPolicy

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The operator's patience, in seconds."""

    start_seconds: float = 600.0
    """A replica that does not serve by then has failed."""
    probe_seconds: float = 60.0
    leave_seconds: float = 3.0
    """How long gateways get to stop sending to a replica before it is told to drain."""
    drain_seconds: float = 40.0
    """A replica that has not ended by then is ended by force."""
    fresh_report_seconds: float = 5.0
    """A gateway that was silent for longer is not waited for."""


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
        self._feed = feed
        self._probes = probes
        self._settings = settings or OperatorSettings()
        self._clock = clock
        self._wall = wall
        self._attached = AttachedEndpoints()
        self._backoff = Backoff(clock)
        self._replicas: dict[str, Replica] = {}
        self._tenants: tuple[TenantPolicy, ...] = ()
        self._published: tuple[str, int] | None = None  # digest and version
        self._is_first_pass = True
        self.holds: dict[str, str] = {}
        """Deployments that lack replicas and get none now, with the reason."""

    @property
    def replicas(self) -> list[Replica]:
        """Every replica that has not ended, by id."""
        return [self._replicas[key] for key in sorted(self._replicas)]

    def reconcile(self) -> bool:
        """One pass. True while something is under way that should be looked at again soon."""
        deployments = self._read_deployments()
        desired = [self._with_plugins(desired_replicas(each)) for each in deployments]
        if self._is_first_pass:
            self._recall()
        observations = self._observe(desired)
        self._catch_up(observations)
        self._take_probe_results()
        plan = self._plan(desired)
        self._begin_stops(plan.stops)
        self._advance_drains()
        self._begin_starts(plan.starts, desired)
        self._tell(plan, deployments)
        self._is_first_pass = False
        unsettled = (ReplicaState.STARTING, ReplicaState.DRAINING)
        return any(replica.state in unsettled for replica in self._replicas.values())

    # --- observe ---------------------------------------------------------------------

    def _read_deployments(self) -> list[DesiredDeployment]:
        with self._database.reading() as session:
            self._tenants = read_tenants(session)
            return list_deployments(session)

    def _with_plugins(self, desired: DesiredReplicas) -> DesiredReplicas:
        """Name what keeps a deployment from starting, and mark attached endpoints."""
        try:
            if self._plugins.find_engine_process(desired.template.engine) is None:
                # One endpoint is one replica, whatever number was asked for.
                number = min(desired.num_replicas, 1)
                return replace(desired, launcher=ATTACHED, num_replicas=number)
            self._plugins.get_launcher(desired.launcher)
        except PluginError as error:
            return replace(desired, problem=desired.problem or str(error))
        return desired

    def _recall(self) -> None:
        """Take over what an earlier control plane had, as the database knows it."""
        with self._database.reading() as session:
            stored = list_unended(session)
        now = self._clock()
        self._replicas = {each.spec.replica_id: from_store(each, now) for each in stored}
        for replica in self._replicas.values():
            if replica.launcher == ATTACHED and replica.state is not ReplicaState.DRAINING:
                self._attached.attach(replica.spec)

    def _observe(self, desired: Sequence[DesiredReplicas]) -> dict[str, ReplicaObservation]:
        names = {each.launcher for each in desired if each.problem is None}
        names |= {replica.launcher for replica in self._replicas.values()}
        found = {each.spec.replica_id: each for each in self._attached.observe()}
        for name in sorted(names - {ATTACHED}):
            for observation in self._plugins.get_launcher(name).observe():
                found[observation.spec.replica_id] = observation
                if observation.spec.replica_id not in self._replicas:
                    self._adopt_unknown(observation, name)
        return found

    def _adopt_unknown(self, observation: ReplicaObservation, launcher: str) -> None:
        """A launcher has a replica that the database does not: the plan decides about it."""
        spec, digest = observation.spec, spec_digest(observation.spec)
        with self._database.reading() as session:
            is_ended = is_id_used(session, spec.replica_id)
        if is_ended:
            self._end_remains(observation, launcher)
        else:
            self._enter(spec, digest, launcher, "found running, unknown to the database")

    def _end_remains(self, observation: ReplicaObservation, launcher: str) -> None:
        replica_id = observation.spec.replica_id
        if observation.is_alive:
            _log.warning("ending a process of an ended replica", replica_id=replica_id)
            self._plugins.get_launcher(launcher).stop(replica_id, is_forced=True)
        else:
            self._plugins.get_launcher(launcher).forget(replica_id)

    # --- catch up --------------------------------------------------------------------

    def _catch_up(self, observations: dict[str, ReplicaObservation]) -> None:
        for replica in self.replicas:
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

    def _adopt(self, replica: Replica) -> None:
        """A process of an earlier control plane lives on. One that was ready stays so: its
        streams run, and a snapshot without it would end them."""
        if replica.launcher == ATTACHED:
            return
        pid = f" with pid {replica.pid}" if replica.pid else ""
        replica.reason = f"adopted{pid}; it was {replica.state} before"
        with self._database.session() as session:
            note_adoption(
                session, replica.replica_id, reason=replica.reason, now_unix_ns=self._wall()
            )
        _log.info("replica adopted", replica_id=replica.replica_id, state=replica.state.value)
        if replica.state is ReplicaState.READY:
            self._probe(replica)

    def _follow_start(self, replica: Replica) -> None:
        if replica.launcher == ATTACHED:
            self._note_ready(replica, "attached, not probed")
        elif replica.stage == "serving" and replica.address is not None:
            self._probe(replica)
        elif self._clock() - replica.since_at > self._settings.start_seconds:
            waited = f"{self._settings.start_seconds:g} s"
            self._give_up(replica, f"it did not serve within {waited}; stage {replica.stage}")

    def _probe(self, replica: Replica) -> None:
        process = self._plugins.find_engine_process(replica.spec.engine)
        if process is not None and replica.address is not None:
            self._probes.start(
                replica.replica_id, process, replica.address, self._settings.probe_seconds
            )

    def _take_probe_results(self) -> None:
        for result in self._probes.take_results():
            replica = self._replicas.get(result.replica_id)
            if replica is not None and replica.state is not ReplicaState.DRAINING:
                self._note_probe(replica, result)

    def _note_probe(self, replica: Replica, result: ProbeResult) -> None:
        if result.seconds is None:
            self._give_up(replica, f"its probe failed: {result.error}")
            return
        replica.probed_at_unix_ns = self._wall()
        if replica.state is ReplicaState.STARTING:
            milliseconds = result.seconds * 1000
            self._note_ready(replica, f"a probe generated a token in {milliseconds:.0f} ms")

    def _note_ready(self, replica: Replica, reason: str) -> None:
        assert replica.address is not None, "only what serves is probed"
        replica.ready_at = self._clock()
        with self._database.session() as session:
            set_addresses(
                session,
                replica.replica_id,
                address=replica.address,
                metrics_address=replica.metrics_address,
                start_stages=replica.start_stages,
            )
            self._move(session, replica, ReplicaState.READY, reason)

    def _give_up(self, replica: Replica, why: str) -> None:
        """It was wanted and does not work: end it, and count its end as a failure."""
        replica.failure = why
        with self._database.session() as session:
            self._move(session, replica, ReplicaState.DRAINING, why)

    def _note_end(self, replica: Replica, reason: str, stage: str | None) -> None:
        state, why = self._judge_end(replica, reason, stage)
        if state is ReplicaState.FAILED:
            ready_at = replica.ready_at
            ready_seconds = None if ready_at is None else self._clock() - ready_at
            self._backoff.note_failure(replica.spec.deployment, replica.digest, why, ready_seconds)
        with self._database.session() as session:
            self._move(session, replica, state, why)
        del self._replicas[replica.replica_id]
        if replica.launcher == ATTACHED:
            self._attached.forget(replica.replica_id)
        else:
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
            return ReplicaState.STOPPED, f"ended while no control plane ran: {reason}"
        if stage == "draining":
            return ReplicaState.STOPPED, f"somebody else told it to end: {reason}"
        return ReplicaState.FAILED, reason

    # --- plan and act ----------------------------------------------------------------

    def _plan(self, desired: Sequence[DesiredReplicas]) -> Plan:
        holds = {
            each.deployment: hold
            for each in desired
            if (hold := self._backoff.find_hold(each.deployment, each.digest)) is not None
        }
        return plan_replicas(desired, [replica.actual() for replica in self.replicas], holds)

    def _begin_stops(self, stops: Sequence[Stop]) -> None:
        for stop in stops:
            with self._database.session() as session:
                self._move(
                    session, self._replicas[stop.replica_id], ReplicaState.DRAINING, stop.reason
                )

    def _advance_drains(self) -> None:
        for replica in self.replicas:
            if replica.state is ReplicaState.DRAINING:
                self._advance_drain(replica)

    def _advance_drain(self, replica: Replica) -> None:
        waited = self._clock() - replica.since_at
        if replica.launcher == ATTACHED:
            if self._has_left(replica, waited):
                self._attached.stop(replica.replica_id)
            return
        launcher = self._plugins.get_launcher(replica.launcher)
        if not replica.is_told_to_end and self._has_left(replica, waited):
            launcher.stop(replica.replica_id)
            replica.is_told_to_end = True
        if not replica.is_forced_to_end and waited > self._settings.drain_seconds:
            launcher.stop(replica.replica_id, is_forced=True)
            replica.is_forced_to_end = True

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

    def _begin_starts(self, starts: Sequence[Start], desired: Sequence[DesiredReplicas]) -> None:
        by_name = {each.deployment: each for each in desired}
        for start in starts:
            self._start(by_name[start.deployment], start.reason)

    def _start(self, desired: DesiredReplicas, reason: str) -> None:
        with self._database.reading() as session:
            spec = replace(desired.template, replica_id=_new_id(session, desired.deployment))
        replica = self._enter(spec, desired.digest, desired.launcher, reason)
        _log.info("replica starting", replica_id=spec.replica_id, reason=reason)
        process = self._plugins.find_engine_process(spec.engine)
        if process is None:
            self._attached.attach(spec)
            replica.address = spec.artifact
            self._note_ready(replica, "attached, not probed")
        else:
            self._launch(replica, process)

    def _launch(self, replica: Replica, process: EngineProcess) -> None:
        try:
            self._plugins.get_launcher(replica.launcher).launch(replica.spec, process)
        except OSError as error:
            self._note_end(replica, f"it could not be started: {error}", None)

    # --- tell ------------------------------------------------------------------------

    def _tell(self, plan: Plan, deployments: Sequence[DesiredDeployment]) -> None:
        version = self._publish(deployments)
        for replica in self._replicas.values():
            if replica.state is ReplicaState.DRAINING and replica.has_left_at_version is None:
                replica.has_left_at_version = version
        self._note_settled(plan, deployments)
        now = self._wall()
        self._observed.set_replicas([replica.observed(now) for replica in self.replicas])
        self.holds = dict(plan.holds)

    def _publish(self, deployments: Sequence[DesiredDeployment]) -> int:
        """Hand the snapshot on, under a new number if it differs from the last one."""
        snapshot = build_snapshot(deployments, self._tenants, self.replicas)
        digest = snapshot_digest(snapshot)
        if self._published is None or self._published[0] != digest:
            with self._database.session() as session:
                version = version_of(session, digest, self._wall())
            self._published = (digest, version)
            self._feed.publish(replace(snapshot, version=version))
        return self._published[1]

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

    def _enter(self, spec: ReplicaSpec, digest: str, launcher: str, reason: str) -> Replica:
        """From here on the replica is known; its id is taken for ever."""
        with self._database.session() as session:
            add_replica(
                session,
                spec,
                spec_digest=digest,
                launcher=launcher,
                reason=reason,
                now_unix_ns=self._wall(),
            )
        replica = Replica(
            spec=spec,
            digest=digest,
            launcher=launcher,
            state=ReplicaState.STARTING,
            reason=reason,
            since_at=self._clock(),
        )
        self._replicas[spec.replica_id] = replica
        return replica

    def _move(self, session: Session, replica: Replica, state: ReplicaState, reason: str) -> None:
        move_replica(session, replica.replica_id, state, reason=reason, now_unix_ns=self._wall())
        replica.state = state
        replica.reason = reason
        replica.since_at = self._clock()
        _log.info(
            "replica changed", replica_id=replica.replica_id, state=state.value, reason=reason
        )


def _new_id(session: Session, deployment: str) -> str:
    while True:
        replica_id = f"{deployment}-{secrets.token_hex(2)}"
        if not is_id_used(session, replica_id):
            return replica_id

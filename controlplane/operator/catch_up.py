"""Catching up: what was seen of replicas, and what probes proved, becomes their state.

A replica whose launch has not returned is not judged, nor is one by what was seen before it did:
it may not be there yet. What an earlier control plane left is judged once, when it is seen first.
"""

from collections.abc import Mapping

from controlplane.hooks import ReplicaObservation
from controlplane.operator.attached import (
    ATTACHED,
    ATTACHED_LAUNCHERS,
    ATTACHED_REASON,
    OBSERVED,
    AttachedEndpoints,
)
from controlplane.operator.backoff import Backoff
from controlplane.operator.faults import Faults
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.page_look import ANSWERED_AGAIN
from controlplane.operator.probes import ProbeResult, Probes
from controlplane.operator.reach import REACHED_AGAIN, Reach
from controlplane.operator.replica import Replica
from controlplane.operator.roster import Roster
from controlplane.operator.settings import OperatorSettings
from controlplane.operator.sight import Sight, Sighting
from controlplane.operator.vigil import Vigil
from controlplane.store.replicas import ReplicaState
from dataplane.clock import MonotonicClock, WallClock


class CatchUp:
    """Belongs to one reconciler, and to its thread."""

    def __init__(
        self,
        plugins: InstalledPlugins,
        observed: ObservedState,
        roster: Roster,
        sight: Sight,
        attached: AttachedEndpoints,
        faults: Faults,
        backoff: Backoff,
        probes: Probes,
        settings: OperatorSettings,
        clock: MonotonicClock,
        wall: WallClock,
    ) -> None:
        self._plugins = plugins
        self._observed = observed
        self._roster = roster
        self._sight = sight
        self._attached = attached
        self._faults = faults
        self._backoff = backoff
        self._probes = probes
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._vigil = Vigil(settings, clock)
        self._reach = Reach(settings, clock)

    def with_sightings(self, sightings: Mapping[str, Sighting]) -> None:
        """Take in what each launcher showed; of those that showed nothing new all stays."""
        reports = self._observed.gateways()
        self._vigil.read_reports(reports)
        self._reach.read_reports(reports)
        self._vigil.keep_only(replica.replica_id for replica in self._roster.replicas)
        for replica in self._roster.replicas:
            if (fault := self._faults.find_of_launcher(replica.launcher)) is not None:
                self._faults.note(replica.spec.deployment, fault)
                continue  # unseen is not gone
            sighting = sightings.get(replica.launcher)
            if sighting is not None and replica.is_launched_before(sighting.began_at):
                with self._faults.of_deployment(replica.spec.deployment, replica.replica_id):
                    self._take_in(replica, sighting)

    def with_probes(self) -> None:
        """Take in what probes proved since the last call."""
        for result in self._probes.take_results():
            replica = self._roster.find(result.replica_id)
            if replica is not None and replica.state is not ReplicaState.DRAINING:
                self._note_probe(replica, result)

    def with_intruders(self, why_by_replica: Mapping[str, str]) -> None:
        """Give up replicas on whose port somebody else listens: their requests may reach it."""
        for replica_id, why in why_by_replica.items():
            replica = self._roster.find(replica_id)
            if replica is not None and replica.state is ReplicaState.READY:
                self._give_up(replica, why)

    def note_end(self, replica: Replica, reason: str, stage: str | None) -> None:
        """It has ended, or never began; `stage`: what it was in by then."""
        state, why = self._judge_end(replica, reason, stage)
        self._roster.strike(replica, state, why)
        if state is ReplicaState.FAILED:
            ready_at = replica.ready_at
            ready_seconds = None if ready_at is None else self._clock() - ready_at
            self._backoff.note_failure(replica.lane, replica.digest, why, ready_seconds)
        if replica.launcher in ATTACHED_LAUNCHERS:
            self._attached.forget(replica.replica_id)
            return
        deployment = replica.spec.deployment
        self._sight.clear(replica.replica_id, deployment, replica.launcher, is_alive=False)

    # --- what was seen ---------------------------------------------------------------

    def _take_in(self, replica: Replica, sighting: Sighting) -> None:
        observation = sighting.by_replica.get(replica.replica_id)
        if observation is None:
            self.note_end(replica, "its launcher does not know it any more", None)
            return
        token = observation.fencing_token
        if token is not None and token != replica.spec.fencing_token:
            self._fence_off(replica, observation, token)
            return
        replica.note_seen(observation.status, observation.pid, self._seen_at(replica, sighting))
        if observation.is_alive:
            self._follow(replica)
        else:
            reason = observation.exit_reason or "its process is gone"
            self.note_end(replica, reason, _stage(observation))

    def _seen_at(self, replica: Replica, sighting: Sighting) -> int:
        """Of an attached endpoint nothing is seen but what gateways, or its page, tell."""
        if replica.launcher == ATTACHED:
            age = self._reach.age_of(replica.replica_id)
            return replica.seen_at_unix_ns if age is None else self._wall() - int(age * 1e9)
        if replica.launcher == OBSERVED:
            look = self._observed.find_look(replica.replica_id)
            return replica.seen_at_unix_ns if look is None else look.at_unix_ns
        return sighting.began_at_unix_ns

    def _fence_off(self, replica: Replica, observation: ReplicaObservation, token: int) -> None:
        """What has its name is a process of another start of it: it is ended, and not it."""
        deployment, launcher = replica.spec.deployment, replica.launcher
        is_alive = observation.is_alive
        self._sight.clear(replica.replica_id, deployment, launcher, is_alive=is_alive)
        own = replica.spec.fencing_token
        self.note_end(replica, f"what has its name shows fencing token {token}, not {own}", None)

    def _follow(self, replica: Replica) -> None:
        if replica.is_recalled:
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
        if replica.launcher not in ATTACHED_LAUNCHERS:
            self._roster.adopt(replica)
            if replica.state is ReplicaState.READY:
                self._probe(replica, self._settings.probe_seconds)
        replica.is_recalled = False

    def _follow_start(self, replica: Replica) -> None:
        if replica.launcher in ATTACHED_LAUNCHERS:
            self._roster.make_ready(replica, ATTACHED_REASON)
        elif replica.stage == "serving" and replica.address is not None:
            self._probe(replica, self._settings.probe_seconds)
        elif self._clock() - replica.since_at > self._settings.start_seconds:
            waited = f"{self._settings.start_seconds:g} s"
            self._give_up(replica, f"it did not serve within {waited}; stage {replica.stage}")

    # --- what was proven -------------------------------------------------------------

    def _probe(self, replica: Replica, seconds: float) -> None:
        spec = replica.spec
        with self._faults.of_deployment(spec.deployment, f"{replica.replica_id} cannot be probed"):
            process = self._plugins.find_engine_process(spec.engine)
            if process is not None and replica.address is not None:
                self._probes.start(spec, process, replica.address, seconds)

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

    def _judge_end(
        self, replica: Replica, reason: str, stage: str | None
    ) -> tuple[ReplicaState, str]:
        if replica.failure is not None:
            return ReplicaState.FAILED, replica.failure
        if replica.state is ReplicaState.DRAINING:
            forced = " by force" if replica.is_forced_to_end else ""
            return ReplicaState.STOPPED, f"ended{forced}: {replica.reason}"
        if replica.is_recalled:
            how = "it was told to end" if stage == "draining" else reason
            return ReplicaState.STOPPED, f"ended while no control plane ran: {how}"
        if stage == "draining":
            return ReplicaState.STOPPED, f"somebody else told it to end: {reason}"
        return ReplicaState.FAILED, reason


def _stage(observation: ReplicaObservation) -> str | None:
    return observation.status.stage if observation.status else None

"""What launchers show of replicas, and what becomes of those that nobody here knew.

Launchers are asked off the operator's thread, and what one said is taken in once. While one has
not answered for a while, or cannot say, nothing of what it runs is judged: unseen is not gone.
"""

from collections.abc import Set
from dataclasses import dataclass

import structlog

from controlplane.hooks import Launcher, ReplicaObservation
from controlplane.operator.attached import ATTACHED_LAUNCHERS, AttachedEndpoints
from controlplane.operator.calls import Calls
from controlplane.operator.desired import spec_digest
from controlplane.operator.faults import Faults
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.roster import Roster
from dataplane.clock import MonotonicClock, WallClock

_BLIND_SECONDS = 5.0
"""A launcher that has not answered for so long leaves us blind."""
_UNASKED = "it has not said yet what runs"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What one launcher showed at one time."""

    by_replica: dict[str, ReplicaObservation]
    began_at: float
    """When it was asked, on the monotonic clock: what happened later is not in it."""
    began_at_unix_ns: int


class Sight:
    """Belongs to one reconciler, and to its thread."""

    def __init__(
        self,
        plugins: InstalledPlugins,
        attached: AttachedEndpoints,
        roster: Roster,
        faults: Faults,
        calls: Calls,
        clock: MonotonicClock,
        wall: WallClock,
    ) -> None:
        self._plugins = plugins
        self._attached = attached
        self._roster = roster
        self._faults = faults
        self._calls = calls
        self._clock = clock
        self._wall = wall
        self._new: dict[str, Sighting] = {}
        self._last_at: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._errors: dict[str, str] = {}
        self._cleared_at: dict[str, float] = {}

    def ask(self, launchers: Set[str]) -> None:
        """Have each be asked what runs, unless it still is."""
        for name in sorted(launchers - ATTACHED_LAUNCHERS):
            with self._faults.of_launcher(name):
                self._ask(name, self._plugins.get_launcher(name))

    def take(self, launchers: Set[str]) -> dict[str, Sighting]:
        """By launcher: what was shown since the last call. What keeps one of them from showing
        anything for more than a moment is noted as its fault."""
        for name in sorted(launchers - ATTACHED_LAUNCHERS):
            if (why := self._why_blind(name)) is not None:
                self._faults.note_launcher(name, why)
        found, self._new = self._new, {}
        for name, sighting in found.items():
            self._judge_unknown(name, sighting)
        return found | self._attached_sightings()

    def clear(self, replica_id: str, deployment: str, launcher: str, *, is_alive: bool) -> None:
        """Have what is left of an ended replica ended and forgotten. Safe to call again."""
        with self._faults.of_deployment(deployment, f"remains of {replica_id}"):
            found = self._plugins.get_launcher(launcher)

            def act() -> None:
                if is_alive:
                    found.stop(replica_id, is_forced=True)
                else:
                    found.forget(replica_id)

            def note(error: str | None) -> None:
                if error is not None:
                    return
                if is_alive and self._roster.find_state(replica_id) is not None:
                    self._roster.note_remains(replica_id, "its process lived on, and was ended")
                self._cleared_at[replica_id] = self._clock()

            self._calls.put(deployment, f"remains of {replica_id}", act, note)

    def _ask(self, name: str, launcher: Launcher) -> None:
        began_at, began_at_unix_ns = self._clock(), self._wall()
        seen: list[ReplicaObservation] = []

        def act() -> None:
            seen.extend(launcher.observe())

        def note(error: str | None) -> None:
            if error is not None:
                self._errors[name] = error
                return
            self._errors.pop(name, None)
            self._last_at[name] = self._clock()
            self._new[name] = Sighting(
                by_replica={each.spec.replica_id: each for each in seen},
                began_at=began_at,
                began_at_unix_ns=began_at_unix_ns,
            )

        queue = f"launcher {name}"
        if self._calls.put(queue, queue, act, note, is_retried=False, is_awaited=True):
            self._asked_at[name] = began_at

    def _why_blind(self, name: str) -> str | None:
        if (error := self._errors.get(name)) is not None:
            return error
        last_at = self._last_at.get(name)
        if name in self._new or (last_at is not None and self._clock() - last_at < _BLIND_SECONDS):
            return None
        waited = self._clock() - self._asked_at.get(name, self._clock())
        since = f"asked {waited:.0f} s ago, it has not answered"
        return since if last_at is not None or waited > 1.0 else _UNASKED

    def _attached_sightings(self) -> dict[str, Sighting]:
        """Of endpoints that are only listed, whichever of both names stands for their launcher."""
        found = {each.spec.replica_id: each for each in self._attached.observe()}
        now, now_unix_ns = self._clock(), self._wall()
        sighting = Sighting(by_replica=found, began_at=now, began_at_unix_ns=now_unix_ns)
        return dict.fromkeys(ATTACHED_LAUNCHERS, sighting)

    def _judge_unknown(self, launcher: str, sighting: Sighting) -> None:
        unknown = [
            each
            for replica_id, each in sighting.by_replica.items()
            if self._roster.find(replica_id) is None
            and sighting.began_at >= self._cleared_at.get(replica_id, sighting.began_at)
        ]
        self._forget_cleared(sighting)
        newest = self._roster.newest_token
        for observation in unknown:
            self._adopt_unknown(observation, launcher, newest)

    def _forget_cleared(self, sighting: Sighting) -> None:
        """What was cleared before this look, and is not in it, comes back no more."""
        self._cleared_at = {
            replica_id: at
            for replica_id, at in self._cleared_at.items()
            if at > sighting.began_at or replica_id in sighting.by_replica
        }

    def _adopt_unknown(
        self, observation: ReplicaObservation, launcher: str, newest_token: int
    ) -> None:
        """A launcher has a replica that the database does not: the plan decides about it. One that
        has ended, or whose token was given out again since, is fenced off and ended."""
        spec = observation.spec
        is_older = 0 < spec.fencing_token <= newest_token
        if is_older or self._roster.was_used(spec.replica_id):
            if observation.is_alive:
                _log.warning("ending a process of an ended replica", replica_id=spec.replica_id)
            self.clear(spec.replica_id, spec.deployment, launcher, is_alive=observation.is_alive)
        else:
            reason = "found running, unknown to the database"
            self._roster.enter(spec, spec_digest(spec), launcher, reason).launched_at = 0.0

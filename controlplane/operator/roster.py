"""The roster: every replica that has not ended, in memory and in the database.

The database comes first: memory changes only after it took the change, so that a pass that fails
there finds everything as it was and the next one tries again. Changes that are made together are
committed a few hundred at a time, since a fleet of thousands changes at once when it is adopted;
where such a commit fails, what is remembered is read from the database again. Ids are entered, and
committed, before anything is started under them, and are taken for ever.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import replace

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from controlplane.operator.desired import DesiredReplicas
from controlplane.operator.replica import Replica, from_store
from controlplane.operator.restart import Restart
from controlplane.operator.shared_work import SharedWork
from controlplane.store.database import Database
from controlplane.store.replicas import (
    ReplicaState,
    add_replica,
    find_state,
    is_id_used,
    list_unended,
    move_replica,
    newest_token,
    note_adoption,
    note_reach,
    note_remains,
    note_restart,
    set_addresses,
)
from dataplane.clock import MonotonicClock, WallClock
from dataplane.engine import ReplicaSpec

_log = structlog.get_logger(__name__)


class Roster:
    """Belongs to one reconciler, and to its thread."""

    def __init__(self, database: Database, clock: MonotonicClock, wall: WallClock) -> None:
        self._database = database
        self._clock = clock
        self._wall = wall
        self._replicas: dict[str, Replica] = {}
        self._newest_token = 0
        self._shared: SharedWork | None = None
        self.is_recalled = False
        """What is remembered is what the database has."""

    @property
    def replicas(self) -> list[Replica]:
        """Every replica that has not ended, by id."""
        return [self._replicas[key] for key in sorted(self._replicas)]

    def find(self, replica_id: str) -> Replica | None:
        """None for a replica that has ended, or never was."""
        return self._replicas.get(replica_id)

    def get(self, replica_id: str) -> Replica:
        """Raises KeyError for a replica that has ended, or never was."""
        return self._replicas[replica_id]

    def recall(self) -> None:
        """Take over what an earlier control plane had, as the database knows it."""
        with self._database.reading() as session:
            stored = list_unended(session)
            self._newest_token = newest_token(session)
        now, now_unix_ns = self._clock(), self._wall()
        self._replicas = {
            each.spec.replica_id: from_store(each, now, now_unix_ns) for each in stored
        }
        self.is_recalled = True

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Changes inside are committed by the hundred, and all of them at the end."""
        self._shared = SharedWork(self._database)
        try:
            yield
        except SQLAlchemyError as error:
            self._shared.give_up(error)
            self.is_recalled = False
            raise
        finally:
            shared, self._shared = self._shared, None
            self._commit(shared)

    def _commit(self, shared: SharedWork) -> None:
        try:
            shared.commit()
        except SQLAlchemyError:
            self.is_recalled = False
            raise

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Session]:
        if self._shared is None:
            with self._database.session() as session:
                yield session
        else:
            yield self._shared.session()

    def was_used(self, replica_id: str) -> bool:
        """A replica had this id at any time, of this control plane or an earlier one."""
        with self._database.reading() as session:
            return is_id_used(session, replica_id)

    @property
    def newest_token(self) -> int:
        """The greatest fencing token that any replica ever had; 0: none had one."""
        return self._newest_token

    def find_state(self, replica_id: str) -> ReplicaState | None:
        """Where a replica stands, or how it ended; None: none ever had that id."""
        with self._database.reading() as session:
            return find_state(session, replica_id)

    def note_remains(self, replica_id: str, reason: str) -> None:
        """What was left of a replica that the database knows was ended."""
        with self._writing() as session:
            note_remains(session, replica_id, reason=reason, now_unix_ns=self._wall())
        _log.warning("remains ended", replica_id=replica_id, reason=reason)

    def enter_new(self, desired: DesiredReplicas, reason: str) -> Replica:
        """One more replica of a deployment, under an id that nobody ever had."""
        with self._writing() as session:
            spec = replace(
                desired.template,
                replica_id=self._new_id(session, desired.deployment),
                fencing_token=self._newest_token + 1,
            )
            return self.enter(spec, desired.digest, desired.launcher, reason, desired.rollout)

    def enter(
        self,
        spec: ReplicaSpec,
        digest: str,
        launcher: str,
        reason: str,
        rollout: int | None = None,
    ) -> Replica:
        """From here on the replica is known; its id is taken for ever."""
        with self._writing() as session:
            add_replica(
                session,
                spec,
                spec_digest=digest,
                launcher=launcher,
                reason=reason,
                now_unix_ns=self._wall(),
                rollout=rollout,
            )
        replica = Replica(
            spec=spec,
            digest=digest,
            rollout=rollout,
            launcher=launcher,
            state=ReplicaState.STARTING,
            reason=reason,
            since_at=self._clock(),
            seen_at_unix_ns=self._wall(),
        )
        self._newest_token = max(self._newest_token, spec.fencing_token)
        self._replicas[spec.replica_id] = replica
        _log.info("replica entered", replica_id=spec.replica_id, reason=reason)
        return replica

    def adopt(self, replica: Replica) -> None:
        """Its process was started by an earlier control plane, and lives on."""
        pid = f" with pid {replica.pid}" if replica.pid else ""
        reason = f"adopted{pid}; it was {replica.state} before"
        with self._writing() as session:
            note_adoption(session, replica.replica_id, reason=reason, now_unix_ns=self._wall())
        replica.reason = reason
        _log.info("replica adopted", replica_id=replica.replica_id, state=replica.state.value)

    def make_ready(self, replica: Replica, reason: str) -> None:
        """It may be sent traffic from now on."""
        assert replica.address is not None, "only what serves is probed"
        with self._writing() as session:
            set_addresses(
                session,
                replica.replica_id,
                address=replica.address,
                metrics_address=replica.metrics_address,
                start_stages=replica.start_stages,
                unobservable_stages=replica.unobservable_stages,
            )
            self._store(session, replica, ReplicaState.READY, reason)
        self._note(replica, ReplicaState.READY, reason)
        replica.ready_at = replica.since_at

    def note_reach(self, replica: Replica, unreachable: str | None, back: str) -> None:
        """It is lost, and why, or is there again, in the words of `back`. It stays ready: whoever
        lost it goes on trying."""
        reason = unreachable or back
        with self._writing() as session:
            note_reach(
                session,
                replica.replica_id,
                is_reached=unreachable is None,
                reason=reason,
                now_unix_ns=self._wall(),
            )
        replica.unreachable = unreachable
        replica.reason = reason
        _log.info("replica reach", replica_id=replica.replica_id, reason=reason)

    def note_restart(self, replica: Replica, restart: Restart) -> None:
        """Somebody else's server was started anew. It stays what it is."""
        reason = restart.reason
        with self._writing() as session:
            note_restart(session, replica.replica_id, reason=reason, now_unix_ns=self._wall())
        replica.restart, replica.reason = restart, reason
        _log.info("replica restart", replica_id=replica.replica_id, reason=reason)

    def drain(self, replica: Replica, reason: str) -> None:
        """It gets no new traffic from now on, and is about to end."""
        with self._writing() as session:
            self._store(session, replica, ReplicaState.DRAINING, reason)
        self._note(replica, ReplicaState.DRAINING, reason)

    def strike(self, replica: Replica, state: ReplicaState, reason: str) -> None:
        """It has ended: `state` is STOPPED or FAILED."""
        with self._writing() as session:
            self._store(session, replica, state, reason)
        self._note(replica, state, reason)
        del self._replicas[replica.replica_id]

    def _store(self, session: Session, replica: Replica, state: ReplicaState, reason: str) -> None:
        move_replica(session, replica.replica_id, state, reason=reason, now_unix_ns=self._wall())

    def _note(self, replica: Replica, state: ReplicaState, reason: str) -> None:
        replica.state = state
        replica.reason = reason
        replica.since_at = self._clock()
        _log.info(
            "replica changed", replica_id=replica.replica_id, state=state.value, reason=reason
        )

    def _new_id(self, session: Session, deployment: str) -> str:
        """Neither of those that are remembered, which may not be written yet, nor of any other."""
        while True:
            replica_id = f"{deployment}-{secrets.token_hex(2)}"
            with session.no_autoflush:
                is_free = replica_id not in self._replicas and not is_id_used(session, replica_id)
            if is_free:
                return replica_id

"""The history of replicas: what the last failure was, and when it is over."""

from controlplane.store.database import Database
from controlplane.store.replicas import ReplicaState, add_replica, find_last_failure, move_replica
from dataplane.engine import ReplicaSpec

_KILLED = "killed by SIGKILL"


def _start(database: Database, replica_id: str, deployment: str = "chat") -> None:
    spec = ReplicaSpec(
        replica_id=replica_id,
        deployment=deployment,
        engine="paged",
        model_name="tiny",
        model_revision="tiny@1",
        engine_config_revision="paged@1",
        artifact="/models/tiny",
    )
    with database.session() as session:
        add_replica(
            session, spec, spec_digest="d", launcher="local", reason="missing", now_unix_ns=1
        )


def _move(database: Database, replica_id: str, state: ReplicaState, reason: str = "") -> None:
    with database.session() as session:
        move_replica(session, replica_id, state, reason=reason, now_unix_ns=2)


def _last_failure(database: Database, deployment: str = "chat") -> str | None:
    with database.reading() as session:
        found = find_last_failure(session, deployment)
        return None if found is None else found.reason


def test_a_failure_is_the_last_word_until_a_replica_is_ready_again(database: Database) -> None:
    assert _last_failure(database) is None
    _start(database, "chat-1")
    _move(database, "chat-1", ReplicaState.READY)
    _move(database, "chat-1", ReplicaState.FAILED, _KILLED)
    assert _last_failure(database) == _KILLED
    assert _last_failure(database, "other") is None
    _start(database, "chat-2")
    assert _last_failure(database) == _KILLED, "its successor only starts"
    _move(database, "chat-2", ReplicaState.READY)
    assert _last_failure(database) is None


def test_ending_a_successor_on_purpose_mends_no_failure(database: Database) -> None:
    _start(database, "chat-1")
    _move(database, "chat-1", ReplicaState.FAILED, _KILLED)
    _start(database, "chat-2")
    _move(database, "chat-2", ReplicaState.STOPPED, "its engine config changed")
    assert _last_failure(database) == _KILLED

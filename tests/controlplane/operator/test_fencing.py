"""Fencing tokens: which of two processes that show one name is the one that is meant."""

import os
import signal
import time
from dataclasses import replace

import msgspec
from sqlalchemy import text

from dataplane.engine import ReplicaSpec
from dataplane.processes import ProcessDirectory, is_alive
from tests.controlplane.operator.room import Room
from tests.plugins.pilothouse_local.fake_engine import make_spec


def tokens(room: Room) -> list[int]:
    return [replica.spec.fencing_token for replica in room.reconciler.replicas]


def fenced_endpoints(room: Room) -> list[int]:
    """As gateways are told of them."""
    (chat,) = room.snapshot().deployments
    return sorted(each.fencing_token for each in chat.replicas)


def test_tokens_grow_with_every_replica_and_reach_gateways_and_process(room: Room) -> None:
    room.apply(replicas=2)
    room.reconcile_until(room.is_settled)
    assert sorted(tokens(room)) == fenced_endpoints(room) == [1, 2]
    pids = {r.pid for r in room.reconciler.replicas}
    for pid in pids:
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    room.reconcile_until(lambda: fenced_endpoints(room) == [3, 4])
    room.end_control_plane()
    room.begin_control_plane()
    room.apply(replicas=3)
    room.reconcile_until(lambda: fenced_endpoints(room) == [3, 4, 5])


def test_what_has_a_replicas_name_with_another_token_is_ended_and_not_taken_for_it(
    room: Room,
) -> None:
    """Such as after the database was restored from before the replica was started again."""
    room.apply()
    before = room.bring_up()
    assert before.pid is not None
    room.end_control_plane()
    spec = replace(before.spec, fencing_token=9)
    with room.database.session() as session:
        change = text("UPDATE replicas SET fencing_token = 9, spec = :spec")
        session.execute(change, {"spec": msgspec.json.encode(spec).decode()})
    room.begin_control_plane()
    room.reconcile_until(lambda: room.is_settled() and tokens(room) == [10])
    room.reconcile_until(lambda: room.num_alive() == 1)
    assert before.replica_id not in room.endpoints()
    (state, reason), (_, last) = room.history(before.replica_id)[-2:]
    assert state == "stopped"
    assert "shows fencing token 1, not 9" in reason
    assert "its process lived on" in last
    record = ProcessDirectory(room.folder / "state").find(before.replica_id)
    assert record is None or not is_alive(record)


def test_a_process_that_no_row_knows_is_adopted_only_with_a_newer_token(room: Room) -> None:
    room.apply(replicas=0)
    room.launcher.launch(with_token("chat-old", 1), room.engine)
    room.launcher.launch(with_token("chat-new", 7), room.engine)
    room.end_control_plane()
    room.begin_control_plane()
    room.apply(replicas=1)
    room.reconcile_until(lambda: room.is_settled() and room.num_alive() == 1)
    # Both are newer than a database that gave none out: judged by their spec, and not wanted.
    assert room.history("chat-old")[0][1] == "found running, unknown to the database"
    assert tokens(room) == [8]
    room.launcher.launch(with_token("chat-late", 5), room.engine)
    room.reconcile_until(lambda: room.num_alive() == 1 and not is_there(room, "chat-late"))
    assert room.history("chat-late") == []


def is_there(room: Room, replica_id: str) -> bool:
    time.sleep(0.01)
    return (room.folder / "state" / "replicas" / replica_id).exists()


def with_token(replica_id: str, token: int) -> ReplicaSpec:
    return replace(make_spec(replica_id), fencing_token=token)

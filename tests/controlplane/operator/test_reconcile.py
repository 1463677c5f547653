"""The operator over a real database, a real launcher and real processes."""

import os
import signal
import time

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.settings import OperatorSettings
from controlplane.store.replicas import list_unended
from dataplane.policy import Snapshot
from dataplane.processes import ProcessDirectory, terminate
from dataplane.report import ReplicaReport
from tests.controlplane.operator.room import Room
from tests.controlplane.quiet_gateway import quiet_report
from tests.plugins.pilothouse_local.fake_engine import make_spec


def test_a_deployment_gets_its_replica_and_is_settled_once_a_token_was_probed(room: Room) -> None:
    room.apply()
    room.reconciler.reconcile()
    assert room.endpoints() == []
    replica = room.bring_up()
    assert room.engine.num_probes == 1
    assert room.endpoints() == [replica.replica_id]
    states = [state for state, _ in room.history(replica.replica_id)]
    assert states == ["starting", "ready"]
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.stage, seen.pid) == ("ready", "serving", replica.pid)
    assert seen.start_stages == {"load": 0.1}
    assert seen.probed_at_unix_ns is not None


def test_a_killed_replica_leaves_the_snapshot_and_is_replaced_under_a_new_id(room: Room) -> None:
    room.apply()
    first = room.bring_up()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    room.reconcile_until(lambda: first.replica_id not in room.endpoints())
    room.reconcile_until(lambda: len(room.endpoints()) == 1)
    second = room.endpoints()[0]
    assert second != first.replica_id
    state, reason = room.history(first.replica_id)[-1]
    assert state == "failed"
    assert "SIGKILL" in reason


def test_changed_settings_drain_the_old_replica_before_the_new_one_starts(room: Room) -> None:
    room.apply()
    first = room.bring_up()
    room.apply(settings="{size: 2}")
    most = 0

    def settled() -> bool:
        nonlocal most
        most = max(most, room.num_alive())
        return room.is_settled()

    room.reconcile_until(settled)
    assert most == 1
    assert room.endpoints() != [first.replica_id]
    assert [state for state, _ in room.history(first.replica_id)][-2:] == ["draining", "stopped"]
    assert "generation 2" in room.history(first.replica_id)[-2][1]


def test_more_and_fewer_replicas_are_brought_about(room: Room) -> None:
    room.apply(replicas=3)
    room.reconcile_until(room.is_settled)
    assert len(room.endpoints()) == 3
    room.apply(replicas=0)
    room.reconcile_until(room.is_settled)
    assert room.endpoints() == []
    assert room.num_alive() == 0


def test_a_restarted_control_plane_adopts_a_ready_replica_without_a_gap(room: Room) -> None:
    room.apply()
    before = room.bring_up()
    version = room.snapshot().version
    room.end_control_plane()
    room.begin_control_plane()
    room.reconciler.reconcile()
    assert room.endpoints() == [before.replica_id]
    assert room.snapshot().version == version
    assert room.reconciler.replicas[0].pid == before.pid
    assert f"adopted with pid {before.pid}" in room.history(before.replica_id)[-1][1]
    room.reconcile_until(lambda: room.engine.num_probes == 2)


def test_what_changed_meanwhile_is_replaced_after_a_restart(room: Room) -> None:
    room.apply()
    before = room.bring_up()
    room.end_control_plane()
    room.apply(settings="{size: 2}")
    room.begin_control_plane()
    room.reconcile_until(room.is_settled)
    assert room.endpoints() != [before.replica_id]
    assert room.num_alive() == 1


def test_what_died_meanwhile_counts_as_no_failure(room: Room) -> None:
    room.apply()
    before = room.bring_up()
    room.end_control_plane()
    (record,) = ProcessDirectory(room.folder / "state").records()
    assert terminate(record, grace_seconds=10) == 0
    room.begin_control_plane()
    room.reconcile_until(room.is_settled)
    state, reason = room.history(before.replica_id)[-1]
    assert state == "stopped"
    assert reason == "ended while no control plane ran: it was told to end"


def test_a_replica_that_the_database_never_knew_is_judged_by_its_spec(room: Room) -> None:
    room.apply()
    room.launcher.launch(make_spec("chat-lost"), room.engine)
    room.reconcile_until(room.is_settled)
    assert "chat-lost" not in room.endpoints()
    assert room.history("chat-lost")[0] == ("starting", "found running, unknown to the database")
    assert room.history("chat-lost")[-1][0] == "stopped"
    assert room.num_alive() == 1


class BrokenFeed(SnapshotFeed):
    """Nothing can be published."""

    def publish(self, snapshot: Snapshot) -> None:
        raise OSError("no snapshot can be published")


def test_a_pass_that_failed_late_does_not_adopt_again(room: Room) -> None:
    room.apply()
    before = room.bring_up()
    room.end_control_plane()
    room.begin_control_plane(feed=BrokenFeed())
    for _ in range(2):
        with pytest.raises(OSError, match="no snapshot can be published"):
            room.reconciler.reconcile()
    adoptions = [reason for _, reason in room.history(before.replica_id) if "adopted" in reason]
    assert len(adoptions) == 1


def test_a_commit_that_fails_is_made_good_by_what_the_database_has(room: Room) -> None:
    room.apply(replicas=2)
    room.reconcile_until(room.is_settled)
    before = room.endpoints()
    (first, second) = [replica.pid for replica in room.reconciler.replicas]
    for pid in (first, second):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    fails = iter([True])

    def fail(connection: Connection) -> None:
        if next(fails, False):
            raise OperationalError("COMMIT", {}, Exception("the disk is gone"))

    event.listen(room.database.engine, "commit", fail)
    with pytest.raises(OperationalError, match="the disk is gone"):
        room.reconcile_until(lambda: False)
    assert [room.history(replica_id)[-1][0] for replica_id in before] == ["ready", "ready"]
    room.reconcile_until(lambda: len(set(room.endpoints()) - set(before)) == 2)
    assert [room.history(replica_id)[-1][0] for replica_id in before] == ["stopped", "stopped"]
    assert room.num_alive() == 2


def test_a_crash_loop_waits_and_shows_why(room: Room) -> None:
    room.apply(settings="{fail: true}")
    room.reconcile_until(lambda: "chat" in room.reconciler.holds)
    hold = room.reconciler.holds["chat"]
    assert hold.startswith("failed 2 times in a row, next start in")
    assert hold.endswith("the weights are missing: install them")
    assert room.reconciler.failures == room.observed.failures()[0] == {"chat": 2}
    assert 0 < room.reconciler.retries["chat"] - time.time_ns() <= 10**9
    with room.database.reading() as session:
        assert list_unended(session) == []
    room.apply(settings="{}")
    room.bring_up()
    assert room.reconciler.holds == {}
    assert room.reconciler.failures == {}
    assert room.reconciler.retries == {}


def test_a_replica_that_generates_no_token_never_becomes_ready(room: Room) -> None:
    room.engine.probe_error = "it selected no token"
    room.apply()
    room.reconcile_until(lambda: "chat" in room.reconciler.holds)
    assert room.endpoints() == []
    assert "its probe failed" in room.reconciler.holds["chat"]
    assert room.num_alive() == 0


def test_a_start_that_takes_for_ever_is_given_up(room: Room) -> None:
    room.end_control_plane()
    room.begin_control_plane(OperatorSettings(start_seconds=1.5))
    room.apply(settings="{slow: true}")
    room.reconcile_until(lambda: "chat" in room.reconciler.holds)
    assert "did not serve within 1.5 s; stage load" in room.reconciler.holds["chat"]


def test_a_deaf_replica_is_ended_by_force(room: Room) -> None:
    room.end_control_plane()
    room.begin_control_plane(
        OperatorSettings(drain_seconds=0.2, leave_seconds=0.1, ending_seconds=0)
    )
    room.apply(settings="{stubborn: true}")
    replica = room.bring_up()
    room.apply(replicas=0)
    room.reconcile_until(room.is_settled)
    assert room.history(replica.replica_id)[-1][1].startswith("ended by force")


def test_a_draining_replica_lives_until_gateways_have_let_go_of_it(room: Room) -> None:
    room.apply()
    replica = room.bring_up()
    version = room.snapshot().version
    room.observed.put_gateway(quiet_report(snapshot_version=version))
    room.apply(replicas=0)
    for _ in range(20):
        room.reconciler.reconcile()
    assert room.endpoints() == []
    assert room.num_alive() == 1
    room.observed.put_gateway(quiet_report(snapshot_version=version + 1))
    room.reconcile_until(lambda: room.num_alive() == 0)
    assert replica.since_at + OperatorSettings().leave_seconds > time.monotonic()


def test_who_took_over_ends_nothing_before_gateways_had_the_time_to_report(room: Room) -> None:
    room.apply()
    room.bring_up()
    room.end_control_plane()
    settings = OperatorSettings(leave_seconds=0.2)
    room.begin_control_plane(settings)
    room.apply(replicas=0)
    room.reconcile_until(lambda: room.endpoints() == [])
    draining = room.reconciler.replicas[0].since_at
    room.reconcile_until(lambda: time.monotonic() > draining + 2 * settings.leave_seconds)
    assert room.num_alive() == 1
    room.observed.put_gateway(quiet_report(snapshot_version=room.snapshot().version))
    room.reconcile_until(lambda: room.num_alive() == 0)
    assert time.monotonic() < draining + settings.return_seconds


def test_who_took_over_replaces_nothing_before_gateways_reach_what_is_new(room: Room) -> None:
    room.apply(surge=1)
    before = room.bring_up().replica_id
    room.end_control_plane()
    settings = OperatorSettings(leave_seconds=0.2)
    room.begin_control_plane(settings)
    room.apply(settings="{size: 2}", surge=1)
    room.reconcile_until(lambda: len(room.endpoints()) == 2)
    # Nobody can call it yet, and it takes longer to begin than gateways get to connect.
    named = time.monotonic()
    room.reconcile_until(lambda: time.monotonic() > named + 2 * settings.leave_seconds)
    assert before in room.endpoints()
    links = tuple(
        ReplicaReport(replica_id=each, is_connected=True, num_outstanding=0)
        for each in room.endpoints()
    )
    version = room.snapshot().version
    room.observed.put_gateway(quiet_report(replicas=links, snapshot_version=version))
    room.reconcile_until(lambda: before not in room.endpoints())


def test_what_runs_stays_until_gateways_reach_what_takes_its_place(room: Room) -> None:
    room.apply(surge=1)
    before = room.bring_up()

    def tell_connected(*replica_ids: str) -> None:
        links = tuple(
            ReplicaReport(replica_id=each, is_connected=True, num_outstanding=0)
            for each in replica_ids
        )
        version = room.snapshot().version
        room.observed.put_gateway(quiet_report(replicas=links, snapshot_version=version))

    tell_connected(before.replica_id)
    room.apply(settings="{size: 2}", surge=1)
    room.reconcile_until(lambda: len(room.endpoints()) == 2)
    for _ in range(10):
        room.reconciler.reconcile()
    assert before.replica_id in room.endpoints()
    tell_connected(*room.endpoints())
    room.reconcile_until(lambda: before.replica_id not in room.endpoints())
    (after,) = (each for each in room.reconciler.replicas if each is not before)
    assert after.ready_at is not None
    assert after.ready_at + OperatorSettings().leave_seconds > time.monotonic()


def test_a_missing_artifact_holds_the_start_and_keeps_what_runs(room: Room) -> None:
    room.apply()
    replica = room.bring_up()
    room.weights.unlink()
    room.reconciler.reconcile()
    assert f"{room.weights} does not exist" in room.reconciler.holds["chat"]
    assert room.reconciler.failures == {}
    assert room.endpoints() == [replica.replica_id]
    assert room.snapshot().deployments[0].tokenizer_artifact == str(room.weights)


def test_a_model_that_cannot_be_started_leaves_the_running_one_its_tokenizer(room: Room) -> None:
    tokenizer = room.folder / "tokenizer"
    tokenizer.touch()
    room.apply(model=f"path: {room.weights}}}, tokenizer: {{path: {tokenizer}")
    room.bring_up()
    room.apply(model="path: /nowhere/weights}, max_model_len: 7, tokenizer: {path: /nowhere/t")
    room.reconciler.reconcile()
    assert "/nowhere/weights does not exist" in room.reconciler.holds["chat"]
    (chat,) = room.snapshot().deployments
    assert chat.model_revision == "m@1"
    assert chat.tokenizer_artifact == str(tokenizer)
    assert chat.max_model_len is None


def test_an_unknown_engine_holds_the_start_with_the_installed_ones(room: Room) -> None:
    room.apply(engine="nonesuch")
    room.reconciler.reconcile()
    assert "no plugin 'nonesuch'" in room.reconciler.holds["chat"]

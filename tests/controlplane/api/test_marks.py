"""Marks say what they are about, and whether somebody did it or it was only seen."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from controlplane.api.marks import read_marks
from controlplane.operator.restart import Restart
from controlplane.rollouts.machine import RolloutState
from controlplane.store.connection import DatabaseKind
from controlplane.store.replicas import ReplicaState, add_replica, move_replica, note_restart
from controlplane.store.revisions import apply_documents
from controlplane.store.rollouts import find_last, move_rollout
from controlplane.store.series import SeriesSpan
from dataplane.engine import ReplicaSpec
from tests.controlplane.config_documents import documents
from tests.controlplane.rolling_documents import OTHER_POLICY, ROLLING_SERVICE
from tests.databases import open_sqlite

_S = 10**9


def test_each_step_of_a_rollout_is_a_change_of_its_deployment(tmp_path: Path) -> None:
    database = open_sqlite(tmp_path / "config.db", DatabaseKind.CONFIG)
    for at, texts in ((1, ROLLING_SERVICE), (20, [OTHER_POLICY])):
        with database.session() as session:
            found, clock = documents(*texts), partial(int, at * _S)
            apply_documents(session, found, author="ann", reason="longer", clock=clock)
    with database.session() as session:
        rollout = find_last(session, "chat")
        assert rollout is not None
        running = replace(rollout.progress, state=RolloutState.RUNNING, reason="it is ready")
        move_rollout(session, rollout, running, now_unix_ns=30 * _S)
    span = SeriesSpan(start_unix=10, end_unix=90, step_seconds=60)
    marks = read_marks(database, span, "chat")
    others = read_marks(database, span, "other")
    database.close()
    assert [(mark.at_unix_ns, mark.kind, mark.deployment) for mark in marks] == [
        (20 * _S, "rollout", "chat"),
        (30 * _S, "rollout", "chat"),
    ]
    assert "step 1, 5 % to the candidate" in marks[1].text
    assert others == []


def test_a_restart_that_was_seen_is_nobodys_deed(tmp_path: Path) -> None:
    database = open_sqlite(tmp_path / "config.db", DatabaseKind.CONFIG)
    restart = Restart(after_unix_ns=30 * _S, seen_at_unix_ns=35 * _S)
    spec = ReplicaSpec(
        replica_id="e",
        deployment="chat",
        engine="openai",
        model_revision="m@1",
        engine_config_revision="attached@1",
        artifact="/x",
        model_name="chat",
    )
    with database.session() as session:
        add_replica(
            session,
            spec,
            spec_digest="d",
            launcher="observed",
            reason="wanted",
            now_unix_ns=10 * _S,
        )
        move_replica(session, "e", ReplicaState.READY, reason="declared", now_unix_ns=20 * _S)
        note_restart(session, "e", reason=restart.reason, now_unix_ns=60 * _S)
    marks = read_marks(database, SeriesSpan(start_unix=0, end_unix=90, step_seconds=60), None)
    database.close()
    assert [each.subject for each in marks] == ["e", "e", "e"]
    assert [each.is_observation for each in marks] == [False, True, True]

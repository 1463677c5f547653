"""The operator over a real database, a real launcher and real processes."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from controlplane.hooks import Launcher
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.page_look import PageLook, Silence
from controlplane.operator.probes import Probes
from controlplane.operator.reconcile import Reconciler
from controlplane.operator.replica import Replica
from controlplane.operator.settings import OperatorSettings
from controlplane.store.database import Database
from controlplane.store.deployments import list_deployments
from controlplane.store.replicas import list_transitions, list_unended
from controlplane.store.revisions import apply_documents
from dataplane.engine import EngineProcess
from dataplane.policy import Snapshot, decode_snapshot
from dataplane.processes import ProcessDirectory, is_alive, terminate
from dataplane.report import ReplicaReport
from pilothouse_local.launcher import LocalLauncher
from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    config_database,
    documents,
)
from tests.controlplane.quiet_gateway import quiet_report
from tests.plugins.pilothouse_local.fake_engine import FakeEngine, make_spec

DEPLOYMENT = """\
kind: Deployment
metadata: {{name: chat}}
spec:
  model: m
  engine: e
  policy: chat
  contract: chat
  replicas: {replicas}
  observe_only: {observe_only}
"""
ENGINE = """\
kind: EngineConfig
metadata: {{name: e}}
spec: {{engine: {engine}, settings: {settings}}}
"""


class Room(InstalledPlugins):
    """One state directory, in which control planes come and go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "state")
        self.folder = folder
        self.engine = FakeEngine(folder)
        self.database: Database = config_database(folder)
        self.weights = folder / "weights"
        self.weights.touch()
        self.begin_control_plane()

    def begin_control_plane(
        self, settings: OperatorSettings | None = None, feed: SnapshotFeed | None = None
    ) -> None:
        """Forget all that is in memory, as a restart does."""
        self.launcher = LocalLauncher(self.folder / "state")
        self.observed = ObservedState()
        self.feed = feed or SnapshotFeed()
        self.probes = Probes(on_done=lambda: None)
        self.reconciler = Reconciler(
            self.database, self, self.observed, self.feed, self.probes, settings
        )

    def end_control_plane(self) -> None:
        self.probes.close()

    def find_engine_process(self, engine: str) -> EngineProcess | None:
        return self.engine if engine == "fake" else super().find_engine_process(engine)

    def get_launcher(self, name: str) -> Launcher:
        return self.launcher if name == "local" else super().get_launcher(name)

    def apply(
        self,
        replicas: int = 1,
        settings: str = "{}",
        engine: str = "fake",
        model: str = "",
        observe_only: bool = False,
    ) -> None:
        artifact = model or f"path: {self.weights}"
        texts = [
            f"kind: Model\nmetadata: {{name: m}}\nspec: {{artifact: {{{artifact}}}}}\n",
            ENGINE.format(settings=settings, engine=engine),
            DESIGN_CONTRACT,
            DESIGN_POLICY,
            DEPLOYMENT.format(replicas=replicas, observe_only=str(observe_only).lower()),
        ]
        with self.database.session() as session:
            apply_documents(session, documents(*texts), author="test", reason="test")

    def reconcile_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 15
        while True:
            self.reconciler.reconcile()
            if condition():
                return
            assert time.monotonic() < deadline, self.reconciler.replicas
            time.sleep(0.02)

    def is_settled(self) -> bool:
        with self.database.reading() as session:
            return all(d.observed_generation == d.generation for d in list_deployments(session))

    def bring_up(self) -> Replica:
        self.reconcile_until(self.is_settled)
        (replica,) = self.reconciler.replicas
        return replica

    def snapshot(self) -> Snapshot:
        assert self.feed.current is not None
        return decode_snapshot(self.feed.current.data)

    def endpoints(self) -> list[str]:
        return [replica.replica_id for replica in self.snapshot().deployments[0].replicas]

    def history(self, replica_id: str) -> list[tuple[str, str]]:
        with self.database.reading() as session:
            lines = list_transitions(session)
        return [
            (line.state.value, line.reason)
            for line in reversed(lines)
            if line.replica_id == replica_id
        ]

    def num_alive(self) -> int:
        return sum(is_alive(r) for r in ProcessDirectory(self.folder / "state").records())


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.end_control_plane()
    for record in ProcessDirectory(tmp_path / "state").records():
        terminate(record, grace_seconds=0)
    room.database.close()


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


def test_a_crash_loop_waits_and_shows_why(room: Room) -> None:
    room.apply(settings="{fail: true}")
    room.reconcile_until(lambda: "chat" in room.reconciler.holds)
    hold = room.reconciler.holds["chat"]
    assert hold.startswith("failed 2 times in a row, next start in")
    assert hold.endswith("the weights are missing: install them")
    with room.database.reading() as session:
        assert list_unended(session) == []
    room.apply(settings="{}")
    room.bring_up()
    assert room.reconciler.holds == {}


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


def test_a_missing_artifact_holds_the_start_and_keeps_what_runs(room: Room) -> None:
    room.apply()
    replica = room.bring_up()
    room.weights.unlink()
    room.reconciler.reconcile()
    assert f"{room.weights} does not exist" in room.reconciler.holds["chat"]
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


def test_engine_and_gateway_are_told_the_same_longest_sequence(room: Room) -> None:
    model = f"path: {room.weights}}}, max_model_len: 512, tokenizer: {{path: /t"
    room.apply(model=model)
    first = room.bring_up()
    assert first.spec.settings == {"max_model_len": 512}
    assert room.snapshot().deployments[0].max_model_len == 512
    room.apply(model=model, settings="{max_model_len: 256}")
    second = room.bring_up()
    assert second.spec.settings == {"max_model_len": 256}
    assert room.snapshot().deployments[0].max_model_len == 256


def test_versions_go_on_above_what_a_gateway_enforces_when_the_database_was_lost(
    room: Room,
) -> None:
    room.apply()
    room.bring_up()
    room.observed.put_gateway(quiet_report(snapshot_version=70))
    room.reconciler.reconcile()
    assert room.snapshot().version == 71
    room.reconciler.reconcile()
    assert room.snapshot().version == 71
    room.observed.put_gateway(quiet_report(snapshot_version=71))
    room.apply(replicas=0)
    room.reconciler.reconcile()
    assert room.snapshot().version == 72


def test_an_unknown_engine_holds_the_start_with_the_installed_ones(room: Room) -> None:
    room.apply(engine="nonesuch")
    room.reconciler.reconcile()
    assert "no plugin 'nonesuch'" in room.reconciler.holds["chat"]


def test_an_attached_endpoint_is_listed_at_once_and_survives_a_restart(room: Room) -> None:
    room.apply(engine="openai", model='url: "http://127.0.0.1:9/"', settings="{model: x}")
    room.reconciler.reconcile()
    (endpoint,) = room.snapshot().deployments[0].replicas
    assert (endpoint.address, endpoint.settings) == ("http://127.0.0.1:9", {"model": "x"})
    assert room.snapshot().deployments[0].tokenizer_artifact is None
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.reason, seen.pid) == ("ready", "attached, not probed", None)
    room.reconcile_until(room.is_settled)
    room.end_control_plane()
    room.begin_control_plane()
    room.reconciler.reconcile()
    assert room.endpoints() == [endpoint.replica_id]
    room.apply(replicas=0, engine="openai", model='url: "http://127.0.0.1:9/"')
    room.reconcile_until(room.is_settled)
    assert room.endpoints() == []


def test_a_server_that_runs_is_attached_also_where_its_engine_could_be_started(
    room: Room,
) -> None:
    room.apply(replicas=3, engine="vllm", model='url: "http://127.0.0.1:9"')
    room.reconcile_until(room.is_settled)
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.pid, seen.address) == ("ready", None, "http://127.0.0.1:9")
    assert "once it has generated a token" in seen.reason


def test_a_server_that_is_only_observed_is_listed_as_that_and_no_gateway_is_given_it(
    room: Room,
) -> None:
    url = 'url: "http://127.0.0.1:9"'
    room.apply(engine="vllm", model=url, observe_only=True)
    room.reconcile_until(room.is_settled)
    (seen,) = room.observed.replicas()
    assert (seen.state, seen.address) == ("ready", "http://127.0.0.1:9")
    assert "no request passes through Pilothouse" in seen.reason
    (chat,) = room.snapshot().deployments
    assert (chat.is_observed_only, chat.replicas) == (True, ())

    room.apply(engine="vllm", model=url)
    room.reconcile_until(lambda: room.is_settled() and room.endpoints() != [])
    (seen,) = room.observed.replicas()
    assert "once it has generated a token" in seen.reason


def test_an_endpoint_with_a_key_is_said_to_be_watched_without_it(room: Room) -> None:
    key = "{api_key_env: ENGINE_KEY_A}"
    room.apply(engine="vllm", model='url: "http://127.0.0.1:9"', settings=key)
    room.reconcile_until(room.is_settled)
    (seen,) = room.observed.replicas()
    assert seen.reason.endswith("read without its key, which is in gateways' environment alone")


def test_what_is_to_be_observed_must_run_already(room: Room) -> None:
    room.apply(observe_only=True)
    room.reconciler.reconcile()
    assert room.reconciler.replicas == []
    assert "give its Model the server's url" in room.reconciler.holds["chat"]


def test_a_snapshot_carries_policy_contract_and_revisions_and_grows_with_changes(
    room: Room,
) -> None:
    room.apply()
    room.bring_up()
    first = room.snapshot()
    for _ in range(3):
        room.reconciler.reconcile()
    assert room.snapshot() == first
    (chat,) = first.deployments
    assert (chat.model_name, chat.model_revision) == ("m", "m@1")
    assert [c.name for c in chat.policy.classes] == ["interactive", "batch"]
    assert chat.contract is not None
    assert chat.contract.revision == "chat@1"
    assert chat.tokenizer_artifact == str(room.weights)
    with room.database.session() as session:
        tenant = "kind: Tenant\nmetadata: {name: acme}\nspec: {tier: gold}\n"
        apply_documents(session, documents(tenant), author="t", reason="t")
    room.reconciler.reconcile()
    assert room.snapshot().version == first.version + 1
    assert [t.name for t in room.snapshot().tenants] == ["acme"]


def test_a_version_that_no_counting_reaches_is_not_followed(room: Room) -> None:
    room.apply()
    room.bring_up()
    own = room.snapshot().version
    room.observed.put_gateway(quiet_report(snapshot_version=2**63 - 1))
    room.reconciler.reconcile()
    assert room.snapshot().version == own


@pytest.mark.parametrize(
    ("kind", "stored", "says"),
    [
        ("Deployment", '{"spec": {"replicas": "many"}}', "stored Deployment document"),
        ("AdmissionPolicy", "[]", "stored AdmissionPolicy document"),
        ("Deployment", "{no JSON", "property name"),
    ],
)
def test_a_stored_document_that_cannot_be_read_holds_its_deployment_alone(
    room: Room, kind: str, stored: str, says: str
) -> None:
    room.apply()
    chat = room.bring_up()
    with room.database.session() as session:
        other = DEPLOYMENT.format(replicas=1, observe_only="false").replace("chat", "other")
        policy = DESIGN_POLICY.replace("name: chat", "name: other")
        contract = DESIGN_CONTRACT.replace("name: chat", "name: other")
        made = documents(other, policy, contract)
        apply_documents(session, made, author="test", reason="test")
    with room.database.session() as session:
        damage = text("UPDATE revisions SET document = :d WHERE kind = :k AND name = 'chat'")
        session.execute(damage, {"d": stored, "k": kind})

    room.reconcile_until(lambda: len(room.snapshot().deployments[-1].replicas) == 1)

    assert says in room.reconciler.holds["chat"]
    assert "other" not in room.reconciler.holds
    served = {policy.name: policy.replicas for policy in room.snapshot().deployments}
    assert [each.replica_id for each in served["chat"]] == [chat.replica_id], "it runs on"
    assert len(served["other"]) == 1


def test_an_attached_endpoint_that_no_gateway_reaches_is_told_and_stays_in_the_snapshot(
    room: Room,
) -> None:
    room.begin_control_plane(OperatorSettings(unreached_seconds=0))
    room.apply(engine="openai", model='url: "http://127.0.0.1:9/"', settings="{model: x}")
    room.reconciler.reconcile()
    (endpoint,) = room.endpoints()

    def state_told_by(error: str | None) -> tuple[str, str]:
        link = ReplicaReport(
            replica_id=endpoint, is_connected=error is None, num_outstanding=0, error=error
        )
        room.observed.put_gateway(quiet_report(replicas=(link,)))
        room.reconciler.reconcile()
        (seen,) = room.observed.replicas()
        return seen.state, seen.reason

    assert state_told_by("no answer") == ("unreachable", "no gateway reaches it: no answer")
    assert room.endpoints() == [endpoint], "gateways go on trying"
    assert state_told_by(None) == ("ready", "a gateway reaches it again")
    assert [state for state, _ in room.history(endpoint)] == [
        "starting",
        "ready",
        "unreachable",
        "ready",
    ]


def test_a_server_that_is_only_observed_is_unreachable_while_its_page_is_not_answered(
    room: Room,
) -> None:
    room.apply(engine="vllm", model='url: "http://127.0.0.1:9"', observe_only=True)
    room.reconciler.reconcile()
    (seen,) = room.observed.replicas()
    replica_id = seen.replica_id

    def state_after(seconds: int, num_silent: int) -> str:
        room.observed.set_looks({replica_id: look(seconds, num_silent)})
        room.reconciler.reconcile()
        (seen,) = room.observed.replicas()
        assert seen.look == look(seconds, num_silent)
        return seen.state

    assert state_after(0, 0) == "ready"
    assert state_after(0, 1) == "ready", "it may be a moment"
    assert state_after(9, 5) == "ready"
    assert state_after(10, 2) == "unreachable"
    room.end_control_plane()
    room.begin_control_plane()
    room.reconciler.reconcile()
    (seen,) = room.observed.replicas()
    assert seen.state == "unreachable", "nobody has asked it since"
    assert state_after(0, 1) == "unreachable", "one more silence is no sign of life"
    assert state_after(20, 0) == "ready"
    told = [state for state, _ in room.history(replica_id)]
    assert told == ["starting", "ready", "unreachable", "ready"]


def look(silent_seconds: int, num_silent: int) -> PageLook:
    return PageLook(
        at_unix_ns=silent_seconds * 10**9,
        page=None,
        page_at_unix_ns=None,
        num_running=None,
        num_waiting=None,
        max_num_seqs=None,
        silence=Silence.TAKEN if num_silent else None,
        silent_since_unix_ns=0 if num_silent else None,
        num_silent=num_silent,
        why="no answer within 2 s" if num_silent else "",
    )

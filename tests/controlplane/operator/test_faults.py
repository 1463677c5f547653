"""A plugin that is gone or broken costs its own deployment, and no other."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from controlplane.hooks import Launcher
from controlplane.operator.settings import OperatorSettings
from controlplane.store.revisions import apply_documents
from dataplane.engine import EngineProcess
from dataplane.host.process import HostProcess
from dataplane.plugins import PluginError
from dataplane.processes import ProcessDirectory, terminate
from tests.controlplane.config_documents import documents
from tests.controlplane.operator.room import Room
from tests.dataplane.tiny_gguf import write_tiny_gguf

OTHER = """\
kind: Deployment
metadata: {name: other}
spec: {model: m, engine: e, policy: chat, contract: chat, replicas: 1, launcher: elsewhere}
"""


class ShakyRoom(Room):
    """Its plugins can be taken away while replicas run."""

    def __init__(self, folder: Path) -> None:
        self.without_engine = False
        self.without_elsewhere = False
        self.breaks_elsewhere = False
        super().__init__(folder)

    def find_engine_process(self, engine: str) -> EngineProcess | None:
        if self.without_engine:
            raise PluginError(f"no plugin is called {engine!r}")
        return HostProcess(engine) if engine == "echo" else super().find_engine_process(engine)

    def get_launcher(self, name: str) -> Launcher:
        if name == "elsewhere":
            if self.breaks_elsewhere:
                raise RuntimeError("broken on import")
            if self.without_elsewhere:
                raise PluginError("no plugin is called 'elsewhere'")
            return self.launcher
        return super().get_launcher(name)

    def add_other(self) -> None:
        with self.database.session() as session:
            apply_documents(session, documents(OTHER), author="test", reason="test")

    def ready(self, deployment: str) -> list[str]:
        found = {each.name: each for each in self.snapshot().deployments}[deployment]
        return [replica.replica_id for replica in found.replicas]

    def state_of(self, replica_id: str) -> str:
        return self.history(replica_id)[-1][0]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ShakyRoom]:
    room = ShakyRoom(tmp_path)
    yield room
    room.end_control_plane()
    for record in ProcessDirectory(tmp_path / "state").records():
        terminate(record, grace_seconds=0)
    room.database.close()


def test_a_launcher_that_is_gone_holds_its_deployment_and_no_other(room: ShakyRoom) -> None:
    room.apply()
    room.add_other()
    room.reconcile_until(room.is_settled)
    (stranded,) = room.ready("other")
    (first,) = room.ready("chat")
    room.without_elsewhere = True
    pid = {each.replica_id: each.pid for each in room.reconciler.replicas}[first]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    room.reconcile_until(lambda: room.ready("chat") not in ([], [first]))
    assert "no plugin is called 'elsewhere'" in room.reconciler.holds["other"]
    assert "chat" not in room.reconciler.holds
    assert room.ready("other") == [stranded]
    room.without_elsewhere = False
    room.reconciler.reconcile()
    assert room.reconciler.holds == {}
    assert room.state_of(stranded) == "ready"


def test_a_drain_without_its_launcher_waits_and_goes_on_once_it_is_back(room: ShakyRoom) -> None:
    room.apply()
    room.add_other()
    room.reconcile_until(room.is_settled)
    (stranded,) = room.ready("other")
    room.without_elsewhere = True
    with room.database.session() as session:
        gone = OTHER.replace("replicas: 1", "replicas: 0")
        apply_documents(session, documents(gone), author="test", reason="test")
    room.reconcile_until(lambda: room.state_of(stranded) == "draining")
    room.reconciler.reconcile()
    assert "elsewhere" in room.reconciler.holds["other"]
    room.without_elsewhere = False
    room.reconcile_until(lambda: room.state_of(stranded) == "stopped")


def test_an_engine_that_is_gone_keeps_what_runs(room: ShakyRoom) -> None:
    room.end_control_plane()
    room.begin_control_plane(OperatorSettings(silent_seconds=0))
    room.apply()
    room.reconcile_until(lambda: room.is_settled())
    (running,) = room.endpoints()
    room.without_engine = True
    for _ in range(5):
        room.reconciler.reconcile()
    assert room.endpoints() == [running]
    assert "no plugin is called 'fake'" in room.reconciler.holds["chat"]


def test_a_stored_spec_that_cannot_be_read_is_replaced_and_hides_nobody(room: ShakyRoom) -> None:
    room.apply(replicas=2)
    room.reconcile_until(room.is_settled)
    broken, sound = room.endpoints()
    room.end_control_plane()
    with room.database.session() as session:
        spec = text("UPDATE replicas SET spec = '{\"no\": 1}' WHERE replica_id = :id")
        session.execute(spec, {"id": broken})
    spec_path = room.folder / "state" / "replicas" / broken / "spec.json"
    spec_path.write_bytes(b"{ no spec")
    room.begin_control_plane()
    room.reconcile_until(lambda: room.is_settled() and len(room.endpoints()) == 2)
    room.reconcile_until(lambda: room.state_of(broken) == "stopped")
    assert sound in room.endpoints()
    assert broken not in room.endpoints()
    assert room.num_alive() == 2


def test_a_replica_that_hangs_is_found_failed_and_replaced(
    room: ShakyRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = room.folder / "site"
    (site / "echo-1.0.dist-info").mkdir(parents=True)
    (site / "echo-1.0.dist-info" / "METADATA").write_text("Name: echo\nVersion: 1.0\n")
    (site / "echo-1.0.dist-info" / "entry_points.txt").write_text(
        "[pilothouse.replica]\necho = tests.dataplane.host.echo_engine\n"
        "[pilothouse.controlplane]\necho = tests.dataplane.host.echo_engine\n"
    )
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(root), *sys.path]))
    weights = write_tiny_gguf(room.folder / "tiny.gguf")
    room.end_control_plane()
    room.begin_control_plane(
        OperatorSettings(silent_seconds=0.3, silent_probe_seconds=1, leave_seconds=0.1)
    )
    room.apply(engine="echo", model=f"path: {weights}")
    replica = room.bring_up()
    assert replica.pid is not None
    os.kill(replica.pid, signal.SIGSTOP)
    room.reconcile_until(lambda: room.state_of(replica.replica_id) == "failed")
    assert room.history(replica.replica_id)[-1][1].startswith("hung: 2 probes in a row failed")
    room.reconcile_until(lambda: room.endpoints() not in ([], [replica.replica_id]))
    again = room.endpoints()
    for _ in range(20):
        room.reconciler.reconcile()
    assert room.endpoints() == again


def test_a_launcher_that_breaks_while_it_is_made_holds_its_deployment_alone(
    room: ShakyRoom,
) -> None:
    room.apply()
    room.add_other()
    room.breaks_elsewhere = True
    room.reconcile_until(lambda: len(room.ready("chat")) == 1)
    assert room.reconciler.holds == {"other": "broken on import"}
    room.breaks_elsewhere = False
    room.reconcile_until(room.is_settled)

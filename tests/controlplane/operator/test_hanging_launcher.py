"""A launcher that does not answer holds up the deployment that asked it, and no other."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.hooks import Launcher, ReplicaObservation
from controlplane.store.revisions import apply_documents
from dataplane.engine import EngineProcess, ReplicaSpec
from dataplane.processes import ProcessDirectory, terminate
from pilothouse_local.launcher import LocalLauncher
from tests.controlplane.config_documents import documents
from tests.controlplane.operator.room import Room
from tests.controlplane.operator.test_faults import OTHER


class HangingLauncher(LocalLauncher):
    """Until `opened` is set, what is named does not return."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.opened = threading.Event()
        self.hangs: set[str] = set()

    def launch(self, spec: ReplicaSpec, process: EngineProcess) -> None:
        if "launch" in self.hangs:
            self.opened.wait(60)
        super().launch(spec, process)

    def observe(self) -> list[ReplicaObservation]:
        if "observe" in self.hangs:
            self.opened.wait(60)
        return super().observe()


class HangingRoom(Room):
    """Of its two launchers `elsewhere` hangs."""

    def __init__(self, folder: Path) -> None:
        self.elsewhere = HangingLauncher(folder / "elsewhere")
        super().__init__(folder)

    def get_launcher(self, name: str) -> Launcher:
        return self.elsewhere if name == "elsewhere" else super().get_launcher(name)

    def num_ready(self, deployment: str) -> int:
        of_it = {each.name: each for each in self.snapshot().deployments}[deployment]
        return len(of_it.replicas)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[HangingRoom]:
    room = HangingRoom(tmp_path)
    room.apply()
    with room.database.session() as session:
        apply_documents(session, documents(OTHER), author="test", reason="test")
    yield room
    room.elsewhere.opened.set()
    room.end_control_plane()
    for state in ("state", "elsewhere"):
        for record in ProcessDirectory(tmp_path / state).records():
            terminate(record, grace_seconds=0)
    room.database.close()


def test_a_launch_that_hangs_holds_up_its_own_deployment_alone(room: HangingRoom) -> None:
    room.elsewhere.hangs = {"launch"}
    room.reconcile_until(lambda: room.num_ready("chat") == 1)
    room.apply(replicas=2)
    room.reconcile_until(lambda: room.num_ready("chat") == 2)
    room.reconcile_until(lambda: "other" in room.reconciler.holds)
    assert list(room.reconciler.holds) == ["other"]
    assert room.reconciler.holds["other"].startswith("launch of other-")
    (waiting,) = [r for r in room.reconciler.replicas if r.spec.deployment == "other"]
    assert waiting.state == "starting"
    room.elsewhere.opened.set()
    room.reconcile_until(room.is_settled)
    assert room.endpoints()
    assert room.reconciler.holds == {}
    assert [state for state, _ in room.history(waiting.replica_id)] == ["starting", "ready"]


def test_a_look_that_hangs_judges_and_starts_nothing_of_its_own_alone(room: HangingRoom) -> None:
    room.reconcile_until(room.is_settled)
    room.end_control_plane()
    room.elsewhere.hangs = {"observe"}
    room.begin_control_plane()
    room.apply(replicas=2)
    room.reconcile_until(lambda: room.num_ready("chat") == 2)
    assert room.num_ready("other") == 1
    assert room.reconciler.holds.keys() == {"other"}
    assert "launcher elsewhere" in room.reconciler.holds["other"]
    room.elsewhere.opened.set()
    room.reconcile_until(lambda: room.reconciler.holds == {})
    assert room.num_ready("other") == 1

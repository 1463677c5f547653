"""The local launcher, with a tiny program that speaks the status-file protocol."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.hooks import ReplicaObservation
from dataplane.processes import ProcessDirectory, terminate
from pilothouse_local import pilothouse_create_launcher
from pilothouse_local.launcher import LocalLauncher
from tests.plugins.pilothouse_local.fake_engine import FakeEngine, make_spec


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LocalLauncher]:
    yield LocalLauncher(tmp_path / "state")
    for record in ProcessDirectory(tmp_path / "state").records():
        terminate(record, grace_seconds=0)


def wait_for(
    launcher: LocalLauncher, replica_id: str, condition: Callable[[ReplicaObservation], bool]
) -> ReplicaObservation:
    deadline = time.monotonic() + 60
    while True:
        (seen,) = [o for o in launcher.observe() if o.spec.replica_id == replica_id]
        if condition(seen):
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.01)


def is_serving(seen: ReplicaObservation) -> bool:
    return seen.status is not None and seen.status.stage == "serving"


def test_a_launched_replica_is_observed_with_its_own_status(
    launcher: LocalLauncher, engine: FakeEngine
) -> None:
    launcher.launch(make_spec("chat-1"), engine)
    seen = wait_for(launcher, "chat-1", is_serving)
    assert seen.spec == make_spec("chat-1")
    assert seen.is_alive
    assert seen.status is not None
    assert (seen.status.pid, seen.status.address) == (seen.pid, "127.0.0.1:4444")
    assert seen.exit_reason is None


def test_launching_it_again_changes_nothing(launcher: LocalLauncher, engine: FakeEngine) -> None:
    launcher.launch(make_spec("chat-1"), engine)
    before = wait_for(launcher, "chat-1", is_serving)
    launcher.launch(make_spec("chat-1"), engine)
    assert wait_for(launcher, "chat-1", is_serving) == before


def test_replicas_of_an_earlier_control_plane_are_observed(
    tmp_path: Path, engine: FakeEngine, launcher: LocalLauncher
) -> None:
    script = (
        "import sys; from pathlib import Path; from pilothouse_local.launcher import LocalLauncher;"
        "from tests.plugins.pilothouse_local.fake_engine import FakeEngine, make_spec;"
        "folder = Path(sys.argv[1]);"
        "LocalLauncher(folder / 'state').launch(make_spec('chat-1'), FakeEngine(folder))"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, cwd=root)
    seen = wait_for(launcher, "chat-1", is_serving)
    assert seen.is_alive
    launcher.stop("chat-1")
    assert "unobserved" in str(wait_for(launcher, "chat-1", lambda o: not o.is_alive).exit_reason)


def test_a_stopped_replica_drains_and_is_forgotten(
    tmp_path: Path, launcher: LocalLauncher, engine: FakeEngine
) -> None:
    launcher.launch(make_spec("chat-1"), engine)
    wait_for(launcher, "chat-1", is_serving)
    with pytest.raises(RuntimeError, match="stop it first"):
        launcher.forget("chat-1")
    launcher.stop("chat-1")
    seen = wait_for(launcher, "chat-1", lambda o: not o.is_alive)
    assert seen.exit_reason is not None
    assert seen.exit_reason.startswith("it exited with code 0")
    # Told only once by the kernel, remembered by the launcher.
    assert wait_for(launcher, "chat-1", lambda _: True).exit_reason == seen.exit_reason
    launcher.forget("chat-1")
    assert launcher.observe() == []
    assert ProcessDirectory(tmp_path / "state").records() == []


def test_a_deaf_replica_is_ended_by_force(launcher: LocalLauncher, engine: FakeEngine) -> None:
    launcher.launch(make_spec("chat-1", stubborn=True), engine)
    wait_for(launcher, "chat-1", is_serving)
    launcher.stop("chat-1")
    time.sleep(0.1)
    assert wait_for(launcher, "chat-1", lambda _: True).is_alive
    launcher.stop("chat-1", is_forced=True)
    seen = wait_for(launcher, "chat-1", lambda o: not o.is_alive)
    assert "SIGKILL" in str(seen.exit_reason)
    assert "chat-1.log" in str(seen.exit_reason)


def test_a_replica_that_gave_up_says_why_itself(
    launcher: LocalLauncher, engine: FakeEngine
) -> None:
    launcher.launch(make_spec("chat-1", fail=True), engine)
    seen = wait_for(launcher, "chat-1", lambda o: not o.is_alive)
    assert seen.exit_reason == "the weights are missing: install them"


def test_a_spec_without_a_process_was_never_started(
    tmp_path: Path, launcher: LocalLauncher, engine: FakeEngine
) -> None:
    launcher.launch(make_spec("chat-1"), engine)
    pid = wait_for(launcher, "chat-1", is_serving).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(launcher, "chat-1", lambda o: not o.is_alive)
    (tmp_path / "state/processes/chat-1.json").unlink()
    seen = wait_for(launcher, "chat-1", lambda _: True)
    assert (seen.is_alive, seen.exit_reason) == (False, "its process was never started")


def test_an_unreadable_status_is_named_and_harms_no_other(
    tmp_path: Path, launcher: LocalLauncher, engine: FakeEngine
) -> None:
    for replica_id in ("chat-1", "chat-2"):
        launcher.launch(make_spec(replica_id), engine)
        wait_for(launcher, replica_id, is_serving)
    (tmp_path / "state/replicas/chat-1/status.json").write_text("{")
    seen = wait_for(launcher, "chat-1", lambda o: o.status is None)
    assert "chat-1/status.json cannot be read" in str(seen.exit_reason)
    assert is_serving(wait_for(launcher, "chat-2", lambda _: True))


def test_a_status_of_an_earlier_process_is_not_believed(
    tmp_path: Path, launcher: LocalLauncher, engine: FakeEngine
) -> None:
    launcher.launch(make_spec("chat-1"), engine)
    seen = wait_for(launcher, "chat-1", is_serving)
    path = tmp_path / "state/replicas/chat-1/status.json"
    path.write_text(path.read_text().replace(str(seen.pid), "1"))
    assert "is about chat-1, pid 1" in str(wait_for(launcher, "chat-1", lambda _: True).exit_reason)


def test_unknown_ids_are_no_error(launcher: LocalLauncher) -> None:
    launcher.stop("nobody")
    launcher.stop("nobody", is_forced=True)
    launcher.forget("nobody")


def test_the_hook_answers_to_its_own_name_alone(tmp_path: Path) -> None:
    assert isinstance(pilothouse_create_launcher(name="local", state_dir=tmp_path), LocalLauncher)
    assert pilothouse_create_launcher(name="ray", state_dir=tmp_path) is None

"""Processes that should not be: real ones, found in /proc, shown and ended; strangers are not."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.hooks import StrayProcess
from controlplane.operator.settings import OperatorSettings
from controlplane.operator.stray import Stray, StrayJudgement
from dataplane.live_process import find_process
from dataplane.process_mark import ProcessMark, state_identity
from pilothouse_local.strays import StrayHunt
from tests.controlplane.operator.room import Room

# A replica whose child keeps its port, and outlives it.
FORKING = """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    os.setsid()
    time.sleep(300)
exec(compile(open(sys.argv[3]).read().replace(
    "127.0.0.1:4444", f"127.0.0.1:{listener.getsockname()[1]}"), "fake", "exec"))
"""


@pytest.fixture
def quick(room: Room) -> Iterator[Room]:
    """One that looks at each pass."""
    room.end_control_plane()
    room.begin_control_plane(OperatorSettings(stray_look_seconds=0, leave_seconds=0.1))
    yield room
    for stray in room.observed.strays():
        if stray.process.pid is not None and stray.kind is not StrayJudgement.INTRUDER:
            kill(stray.process.pid)


def there(room: Room) -> list[Stray]:
    return [each for each in room.observed.strays() if each.ended_at_unix_ns is None]


def kill(pid: int) -> None:
    if find_process(pid) is not None:
        os.kill(pid, signal.SIGKILL)


def marked_sleep(room: Room, name: str, token: int, state: str = "") -> subprocess.Popen[bytes]:
    """A process that says it was started for a replica."""
    identity = state or state_identity(room.folder / "state")
    mark = ProcessMark(state=identity, role="replica", name=name, fencing_token=token)
    return subprocess.Popen(["sleep", "300"], env={**os.environ, **mark.environment()})


def forked(forking: Path, program: Path) -> Callable[[str, str], tuple[str, ...]]:
    return lambda spec, status: (sys.executable, "-S", str(forking), spec, status, str(program))


def test_a_child_that_outlives_its_replica_is_found_with_its_port_and_ended(
    quick: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    forking = quick.folder / "forking.py"
    forking.write_text(FORKING)
    monkeypatch.setattr(quick.engine, "command", forked(forking, quick.engine.program))
    quick.apply()
    replica = quick.bring_up()
    for _ in range(3):
        quick.reconciler.reconcile()
    assert quick.observed.strays() == []
    assert replica.pid is not None
    assert replica.address is not None
    quick.apply(replicas=0)
    os.kill(replica.pid, signal.SIGKILL)
    quick.reconcile_until(lambda: there(quick) != [])
    (stray,) = there(quick)
    assert (stray.kind, stray.process.replica_id) == ("zombie", replica.replica_id)
    assert stray.process.ports == (int(replica.address.split(":")[1]),)
    assert stray.process.resident_bytes is not None
    assert stray.process.resident_bytes > 2**20
    assert stray.process.pid is not None
    quick.reconcile_until(lambda: there(quick) == [])
    assert find_process(stray.process.pid) is None
    assert [each.stray_id for each in quick.observed.strays()] == [stray.stray_id]
    assert f"pid {stray.process.pid} had outlived it" in quick.history(replica.replica_id)[-1][1]


def test_what_no_replica_knows_is_ended_and_what_is_of_another_directory_is_not(
    quick: Room,
) -> None:
    quick.apply()
    replica = quick.bring_up()
    orphan = marked_sleep(quick, "chat-gone", 1)
    older = marked_sleep(quick, replica.replica_id, replica.spec.fencing_token - 1)
    own = marked_sleep(quick, replica.replica_id, replica.spec.fencing_token)
    strangers = [
        subprocess.Popen(["sleep", "300"]),
        marked_sleep(quick, "chat-gone", 1, state="0:0"),
    ]
    try:
        kinds: dict[int | None, str] = {}

        def both_are_gone() -> bool:
            kinds.update({each.process.pid: each.kind for each in there(quick)})
            return len(kinds) >= 2 and there(quick) == []

        quick.reconcile_until(both_are_gone)
        assert kinds == {orphan.pid: "orphan", older.pid: "zombie"}
        assert (orphan.wait(10), older.wait(10)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert [each.poll() for each in (own, *strangers)] == [None, None, None]
        assert quick.endpoints() == [replica.replica_id]
    finally:
        for process in (orphan, older, own, *strangers):
            process.kill()
            process.wait()


def test_a_stranger_on_a_replicas_port_is_shown_and_the_replica_moves_away(quick: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        program = quick.engine.program
        program.write_text(program.read_text().replace("127.0.0.1:4444", f"127.0.0.1:{port}"))
        quick.apply()
        replica = quick.bring_up()
        (told,) = quick.launcher.find_strays()
        with pytest.raises(ValueError, match="no process of ours"):
            quick.launcher.end_stray(told.stray_id)
        quick.reconcile_until(lambda: quick.history(replica.replica_id)[-1][0] == "failed")
        assert f"({port})" in quick.history(replica.replica_id)[-1][1]
        intruder = quick.observed.strays()[-1]
        assert (intruder.kind, intruder.process.pid) == ("intruder", os.getpid())


def test_a_look_that_fails_is_told_and_holds_up_nothing(
    quick: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[StrayProcess]:
        raise PermissionError("/proc is hidden")

    monkeypatch.setattr(quick.launcher, "find_strays", fail)
    quick.apply()
    quick.bring_up()
    assert quick.observed.strays_unseen() == {"local": "/proc is hidden"}
    monkeypatch.undo()
    quick.reconcile_until(lambda: quick.observed.strays_unseen() == {})


def test_a_replica_in_a_copied_directory_is_none_of_ours(quick: Room) -> None:
    """Whoever serves from a copy neither adopts nor ends what runs from the original."""
    quick.apply()
    replica = quick.bring_up()
    copied = quick.folder / "copy"
    shutil.copytree(quick.folder / "state", copied / "state")
    twin = Room(copied)
    try:
        twin.engine = quick.engine
        twin.weights = quick.weights
        twin.end_control_plane()
        twin.begin_control_plane(OperatorSettings(stray_look_seconds=0))
        twin.apply()
        other = twin.bring_up()
        for _ in range(5):
            twin.reconciler.reconcile()
        assert other.pid != replica.pid
        assert twin.observed.strays() == []
        assert find_process(replica.pid or 0) is not None
    finally:
        twin.end_control_plane()
        kill(other.pid or 0)
        twin.database.close()


def test_a_worker_that_hides_its_mark_is_known_by_its_session(tmp_path: Path) -> None:
    """As vLLM's do, which write their titles over their environment."""
    hunt = StrayHunt(state_identity(tmp_path), "replica")
    mark = ProcessMark(state=state_identity(tmp_path), role="replica", name="chat-1")
    hiding = "env -u PILOTHOUSE_PROCESS sleep 300 & wait"
    environment = {**os.environ, **mark.environment()}
    leader = subprocess.Popen(["sh", "-c", hiding], env=environment, start_new_session=True)
    try:
        wait_until(lambda: len(hunt.find([])) == 2)
        leader.kill()
        leader.wait()
        wait_until(lambda: len(hunt.find([])) == 1)
        (worker,) = hunt.find([])
        assert (worker.replica_id, worker.command) == ("chat-1", "sleep 300")
        hunt.end(worker.stray_id)
        wait_until(lambda: hunt.find([]) == [])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)

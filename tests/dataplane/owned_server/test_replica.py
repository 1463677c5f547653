"""Real processes: a replica, the server that it owns, and the server's own child."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from dataplane.engine import ReplicaSpec, ReplicaStatus
from tests.dataplane.owned_server import small_server

Found = TypeVar("Found")


def wait_for(find: Callable[[], Found | None]) -> Found:
    deadline = time.monotonic() + 60
    while (found := find()) is None:
        assert time.monotonic() < deadline, "it took longer than any of this can"
        time.sleep(0.02)
    return found


class Owned:
    """One replica under way, in a folder of its own."""

    def __init__(self, folder: Path, environment: dict[str, str], program: str | None) -> None:
        self.folder = folder
        server = folder / "vllm"
        source = Path(small_server.__file__).read_text()
        server.write_text(f"#!{sys.executable} -S\n{source}")
        server.chmod(0o755)
        entries = {"SMALL_PIDS": str(folder / "pids"), **environment}
        spec = ReplicaSpec(
            replica_id="r-1",
            deployment="chat",
            engine="vllm",
            model_name="demo",
            model_revision="demo@1",
            engine_config_revision="v@1",
            artifact=str(folder),
            settings={
                "server_executable": program or str(server),
                "server_environment": [f"{key}={value}" for key, value in entries.items()],
                "max_model_len": 64,
            },
        )
        (folder / "spec.json").write_bytes(msgspec.json.encode(spec))
        paths = ("--spec", str(folder / "spec.json"), "--status", str(folder / "status.json"))
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pilothouse_vllm.replica", *paths],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "ENGINE_PROGRAMS": f"{server}:{folder / 'gone'}",
                    "ENGINE_OPTIONS": "SMALL_PIDS,SMALL_BUSY,SMALL_FAILS,SMALL_COMPILES",
                },
                start_new_session=True,
            )

    def status(self) -> ReplicaStatus | None:
        path = self.folder / "status.json"
        return msgspec.json.decode(path.read_bytes(), type=ReplicaStatus) if path.exists() else None

    def at(self, stage: str) -> ReplicaStatus:
        def find() -> ReplicaStatus | None:
            found = self.status()
            return found if found is not None and found.stage == stage else None

        return wait_for(find)

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "pids").read_text().split()]


@contextmanager
def owned(
    folder: Path, environment: dict[str, str] | None = None, program: str | None = None
) -> Iterator[Owned]:
    replica = Owned(folder, environment or {}, program)
    try:
        yield replica
    finally:
        replica.process.kill()
        replica.process.wait()


def is_gone(pid: int) -> bool | None:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return True if state in "ZX" else None


def are_gone(pids: list[int]) -> bool:
    return wait_for(lambda: all(map(is_gone, pids)) or None)


def test_a_server_serves_once_it_has_generated_a_token_and_ends_with_its_replica(
    tmp_path: Path,
) -> None:
    with owned(tmp_path) as replica:
        status = replica.at("serving")
        assert set(status.stages) == {"acquire", "load", "warm_up"}
        assert status.unobservable_stages == ("compile",)
        assert status.address is not None
        assert status.address == status.metrics_address
        replica.process.send_signal(signal.SIGTERM)
        assert replica.process.wait(60) == 0
        assert are_gone(replica.pids())


def test_what_a_server_tells_of_compiling_is_a_stage_of_its_own(tmp_path: Path) -> None:
    with owned(tmp_path, {"SMALL_COMPILES": "0.01"}) as replica:
        status = replica.at("serving")
        assert status.stages["compile"] == 0.01
        assert set(status.stages) == {"acquire", "load", "compile", "warm_up"}
        assert status.unobservable_stages == ()


def test_no_orphan_is_left_of_a_replica_that_is_killed(tmp_path: Path) -> None:
    with owned(tmp_path) as replica:
        replica.at("serving")
        pids = replica.pids()
        os.killpg(replica.process.pid, signal.SIGKILL)
        assert are_gone(pids)


def test_a_server_is_asked_to_end_only_when_what_it_runs_has_ended(tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    busy.touch()
    with owned(tmp_path, {"SMALL_BUSY": str(busy)}) as replica:
        replica.at("serving")
        replica.process.send_signal(signal.SIGTERM)
        replica.at("draining")
        server, _ = replica.pids()
        assert is_gone(server) is None
        busy.unlink()
        assert replica.process.wait(60) == 0
        assert are_gone([server])


def test_a_server_that_ends_by_itself_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    with owned(tmp_path, {"SMALL_FAILS": "1"}) as replica:
        assert replica.process.wait(60) == 1
        status = replica.status()
    assert status is not None
    assert status.stage == "failed"
    assert "exited with code 1" in (status.error or "")
    assert "lower max_model_len" in (status.error or "")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("/bin/sh", "/bin/sh is no program that may be started here"),
        ("gone", "gone, which settings.server_executable names, is no program here"),
    ],
)
def test_a_program_that_is_missing_or_not_granted_is_named_with_the_remedy(
    tmp_path: Path, program: str, why: str
) -> None:
    with owned(tmp_path, program=program) as replica:
        assert replica.process.wait(60) == 1
        status = replica.status()
    assert status is not None
    assert why in (status.error or "")
    assert "ENGINE_PROGRAMS" in (status.error or "")


def test_a_server_whose_guard_was_killed_is_ended_and_told(tmp_path: Path) -> None:
    with owned(tmp_path) as replica:
        replica.at("serving")
        server, child = replica.pids()
        os.kill(os.getpgid(server), signal.SIGKILL)
        assert replica.process.wait(60) == 1
        status = replica.status()
        assert are_gone([server, child])
    assert status is not None
    assert "the guard of the server ended" in (status.error or "")

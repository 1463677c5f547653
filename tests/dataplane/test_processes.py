"""Owned processes: real ones, started, recognised and ended."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dataplane.process_mark import ProcessMark, find_mark, state_identity
from dataplane.processes import (
    ProcessDirectory,
    ProcessRecord,
    describe_exit,
    find_exit_code,
    is_alive,
    kill_group,
    send_signal,
    terminate,
    wait_for_exit,
)

SLEEP = ("sleep", "300")
_EXIT_THREAD = {"x86_64": 60, "aarch64": 93}[platform.machine()]
"""The number of the system call that ends one thread."""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[ProcessDirectory]:
    """A state directory whose processes end with the test."""
    directory = ProcessDirectory(tmp_path)
    yield directory
    for record in directory.records():
        terminate(record, grace_seconds=0)


def start(directory: ProcessDirectory, *argv: str, name: str = "one") -> ProcessRecord:
    return directory.start(name, "replica", argv or SLEEP, digest="d1")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def is_pid_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_started_process_is_on_record_and_alive(directory: ProcessDirectory) -> None:
    record = start(directory)
    assert is_alive(record)
    assert directory.find("one") == record
    assert ProcessDirectory(Path(record.log_path).parent.parent).records() == [record]


def test_it_leads_a_session_of_its_own(directory: ProcessDirectory) -> None:
    record = start(directory)
    assert os.getsid(record.pid) == record.pid
    assert os.getpgid(record.pid) == record.pid


def test_what_it_prints_is_appended_to_its_log(directory: ProcessDirectory) -> None:
    for word in ("first", "second"):
        record = start(directory, "sh", "-c", f"echo {word}; echo {word}-error >&2")
        assert wait_for_exit(record, 5)
        assert find_exit_code(record) == 0
    lines = Path(record.log_path).read_text().split()
    assert lines == ["first", "first-error", "second", "second-error"]


def test_a_large_log_is_rotated_at_the_next_start(directory: ProcessDirectory) -> None:
    log_path = directory.log_path("one")
    log_path.parent.mkdir(parents=True)
    log_path.write_bytes(b"x" * (16 * 2**20 + 1))
    record = start(directory, "echo", "fresh")
    assert wait_for_exit(record, 5)
    assert log_path.read_text() == "fresh\n"
    assert log_path.with_name("one.log.1").stat().st_size == 16 * 2**20 + 1


def test_a_signal_mask_of_the_starter_is_not_inherited(directory: ProcessDirectory) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        record = start(directory)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert terminate(record, grace_seconds=5) == -signal.SIGTERM


def test_a_reused_pid_is_never_mistaken(directory: ProcessDirectory) -> None:
    record = start(directory)
    stale = replace(record, start_ticks=record.start_ticks - 1)
    assert not is_alive(stale)
    assert not send_signal(stale, signal.SIGKILL)
    kill_group(stale)
    assert terminate(stale, grace_seconds=0) is None
    assert is_alive(record)


def test_a_record_from_before_a_reboot_means_nobody(directory: ProcessDirectory) -> None:
    record = replace(start(directory), boot_id="another boot")
    assert not is_alive(record)


def test_a_copy_of_a_directory_has_nobodys_processes(
    directory: ProcessDirectory, tmp_path_factory: pytest.TempPathFactory
) -> None:
    record = start(directory)
    copied = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(directory.state_dir, copied, copy_function=shutil.copy2)
    copy = ProcessDirectory(copied)
    assert (copy.find("one"), copy.records()) == (None, [])
    twin = start(copy)
    assert (twin.pid != record.pid, is_alive(record)) == (True, True)
    terminate(twin, grace_seconds=0)
    moved = copied.with_name("moved")
    copied.rename(moved)
    assert ProcessDirectory(moved).find("one") == twin


def test_a_process_and_its_children_are_marked_as_ours(directory: ProcessDirectory) -> None:
    script = 'sh -c "echo $$; exec sleep 300" & wait'
    record = directory.start("one", "replica", ("sh", "-c", script), "d1", fencing_token=7)
    log = Path(record.log_path)
    wait_until(lambda: log.exists() and log.read_text().strip() != "", "the child's pid")
    mark = ProcessMark(
        state=state_identity(directory.state_dir), role="replica", name="one", fencing_token=7
    )
    assert find_mark(record.pid) == mark
    wait_until(lambda: find_mark(int(log.read_text())) == mark, "the child's mark")
    assert find_mark(os.getpid()) is None


def test_terminate_lets_a_process_end_by_itself(directory: ProcessDirectory) -> None:
    script = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); signal.pause()"  # noqa: E501
    record = start(directory, sys.executable, "-c", script)
    wait_until(lambda: "up" in Path(record.log_path).read_text(), "its first line")
    assert terminate(record, grace_seconds=10) == 7
    assert not is_alive(record)


def test_terminate_kills_what_ignores_it(directory: ProcessDirectory) -> None:
    record = start(directory, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    wait_until(lambda: "up" in Path(record.log_path).read_text(), "its first line")
    started = time.monotonic()
    assert terminate(record, grace_seconds=0.3) == -signal.SIGKILL
    assert 0.25 < time.monotonic() - started < 5


def test_terminate_ends_the_children_of_a_process_too(directory: ProcessDirectory) -> None:
    record = start(directory, "sh", "-c", "sleep 300 & echo $!; trap 'exit 0' TERM; wait")
    wait_until(lambda: Path(record.log_path).read_text().endswith("\n"), "the child's pid")
    child_pid = int(Path(record.log_path).read_text())
    assert is_pid_alive(child_pid)
    assert terminate(record, grace_seconds=5) == 0
    wait_until(lambda: not is_pid_alive(child_pid), "the child to end")


def test_a_process_that_is_not_our_child_is_awaited_and_ended(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; import sys; from dataplane.processes import ProcessDirectory; "
        "ProcessDirectory(Path(sys.argv[1])).start('one', 'replica', ('sleep', '300'), 'd')"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    record = ProcessDirectory(tmp_path).find("one")
    assert record is not None
    assert is_alive(record)
    assert not wait_for_exit(record, 0.05)
    assert terminate(record, grace_seconds=5) is None
    assert not is_alive(record)
    assert wait_for_exit(record, 0)


def test_a_zombie_is_dead_and_is_reaped_once(directory: ProcessDirectory) -> None:
    record = start(directory, "sh", "-c", "exit 3")
    assert wait_for_exit(record, 5)
    assert not is_alive(record)
    assert find_exit_code(record) == 3
    assert find_exit_code(record) is None
    assert not Path(f"/proc/{record.pid}").exists()


def test_how_it_ended_is_known_also_while_the_last_of_its_threads_end(
    directory: ProcessDirectory,
) -> None:
    # Its first thread ends alone, by the kernel's own exit; the other one goes on for a moment.
    program = (
        "import ctypes, os, threading, time\n"
        "def end(): time.sleep(0.3); os._exit(7)\n"
        "threading.Thread(target=end).start()\n"
        f"ctypes.CDLL(None).syscall({_EXIT_THREAD}, 0)"
    )
    record = start(directory, sys.executable, "-c", program)
    wait_until(lambda: not is_alive(record), "its end")
    assert find_exit_code(record) == 7


def test_nothing_runs_when_the_starter_dies_before_the_record_is_written(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; import os, sys; from dataplane import processes; "
        "processes.replace_file = lambda *_: os.kill(os.getpid(), 9); "
        "processes.ProcessDirectory(Path(sys.argv[1])).start('one', 'replica', "
        "('sh', '-c', 'echo ran; sleep 300'), 'd')"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert ProcessDirectory(tmp_path).find("one") is None
    time.sleep(0.2)
    assert (tmp_path / "logs" / "one.log").read_text() == ""


def test_a_name_is_taken_as_long_as_its_process_lives(directory: ProcessDirectory) -> None:
    record = start(directory)
    with pytest.raises(RuntimeError, match=f"one is alive with pid {record.pid}"):
        start(directory)
    with pytest.raises(RuntimeError, match="stop it first"):
        directory.forget("one")
    terminate(record, grace_seconds=5)
    directory.forget("one")
    assert directory.find("one") is None


def test_a_missing_program_ends_at_once_with_a_line_in_its_log(directory: ProcessDirectory) -> None:
    record = start(directory, "/no/such/program")
    assert wait_for_exit(record, 5)
    assert find_exit_code(record) == 127
    assert "/no/such/program" in Path(record.log_path).read_text()


def test_a_broken_record_is_named_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "processes" / "one.json"
    path.parent.mkdir()
    path.write_text('{"name": "one"}')
    with pytest.raises(ValueError, match=r"processes/one\.json is no process record"):
        ProcessDirectory(tmp_path).records()


@pytest.mark.parametrize("name", ["", "../other", "a/b", ".hidden"])
def test_a_name_that_is_no_file_name_is_refused(directory: ProcessDirectory, name: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        start(directory, name=name)


def test_an_exit_is_told_in_words() -> None:
    assert describe_exit(-9) == "it was ended by SIGKILL"
    assert describe_exit(2) == "it exited with code 2"
    assert describe_exit(None) == "it ended unobserved"


def test_what_cannot_be_put_on_record_never_runs_and_leaves_no_zombie(
    tmp_path: Path, directory: ProcessDirectory
) -> None:
    (tmp_path / "processes").write_text("a file where the folder of records is to be")
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        start(directory, "touch", str(tmp_path / "ran"))
    assert children.read_text() == before
    assert not (tmp_path / "ran").exists()


def test_several_processes_may_share_a_log(directory: ProcessDirectory) -> None:
    for name in ("one", "one.1"):
        record = directory.start(name, "gateway", ("echo", name), "d1", log_name="one")
        assert wait_for_exit(record, 10)
    assert directory.log_path("one").read_text() == "one\none.1\n"

"""Processes as the kernel shows them, and the end of exactly one of them."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from dataplane.listening import ports_by_socket, sockets_of, sockets_on
from dataplane.live_process import (
    LiveProcess,
    device_bytes_by_pid,
    end_process,
    find_process,
    list_processes,
)


def test_a_process_is_told_with_its_session_command_and_memory() -> None:
    process = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        found = _running(process.pid)
        assert (found.session, found.mark) == (process.pid, None)
        assert found.resident_bytes > 0
        end_process(process.pid, found.start_ticks - 1)  # another one had this number before
        assert process.poll() is None
        end_process(process.pid, found.start_ticks)
        assert process.wait(10) == -9
        end_process(process.pid, found.start_ticks)
        assert find_process(process.pid) is None
    finally:
        process.kill()
        process.wait()


def _running(pid: int) -> LiveProcess:
    """Once it is what it was started as: at first it is a copy of this process, then nothing."""
    while True:
        found = {each.pid: each for each in list_processes()}[pid]
        if found.command.startswith("sleep"):
            return found


def test_device_memory_is_told_by_process_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert device_bytes_by_pid() is None
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "71, 1024"\necho "71, 512"\necho "72, [N/A]"\n')
    program.chmod(0o755)
    assert device_bytes_by_pid() == {71: 1536 * 2**20}
    program.write_text("#!/bin/sh\nexit 9\n")
    assert device_bytes_by_pid() is None


def test_who_listens_is_known_by_its_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (own,) = sockets_on(port)
        assert own in sockets_of(os.getpid())
        assert ports_by_socket()[own] == port
    assert sockets_on(port) == set()

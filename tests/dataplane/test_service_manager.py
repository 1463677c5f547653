"""Talking to a service manager, with the real kinds of sockets."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dataplane.service_manager import inherited_listener, notify, watchdog_seconds

PROGRAM = """
from dataplane.service_manager import InheritedSocketError, inherited_listener
try:
    listener = inherited_listener()
except InheritedSocketError as error:
    raise SystemExit(str(error))
print(listener and listener.getsockname()[1], listener and listener.get_inheritable())
"""


def run_with(passed: socket.socket, num: str = "1") -> tuple[str, str]:
    """What a process prints, and complains about, that is given `passed` as systemd would."""
    script = f'export LISTEN_PID=$$ LISTEN_FDS={num}; exec "$@" 3<&{passed.fileno()}'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "sh", sys.executable, "-c", PROGRAM],
        pass_fds=[passed.fileno()],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip(), done.stderr.strip()


def test_the_socket_that_was_passed_is_listened_on_and_not_passed_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert run_with(listener) == (f"{listener.getsockname()[1]} False", "")


def test_what_is_no_listening_tcp_socket_is_refused_with_the_remedy() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        assert "ListenStream=" in run_with(other)[1]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert "passed 2 sockets" in run_with(listener, "2")[1]


def test_sockets_for_another_process_are_not_ours() -> None:
    assert inherited_listener({"LISTEN_FDS": "1", "LISTEN_PID": str(os.getppid())}) is None
    assert inherited_listener({}) is None


def test_words_reach_the_service_manager_in_one_message(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        assert notify("MAINPID=7", "READY=1", environment=environment)
        assert manager.recv(100) == b"MAINPID=7\nREADY=1"
    assert not notify("READY=1", environment={})
    with pytest.raises(OSError, match="refused"):
        notify("READY=1", environment=environment)


def test_the_watchdog_is_fed_only_by_the_process_it_is_meant_for() -> None:
    assert watchdog_seconds({}) is None
    assert watchdog_seconds({"WATCHDOG_USEC": "3000000"}) == 3.0
    own = {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
    assert watchdog_seconds(own) == 3.0
    assert watchdog_seconds(own | {"WATCHDOG_PID": "1"}) is None

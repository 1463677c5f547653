"""The gateway as a child, with real gateway processes: replaced without a gap, or not at all."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.process_history import ProcessEvent, ProcessHistory
from controlplane.supervisor.gateway_child import GatewayChild
from controlplane.supervisor.http import answers
from controlplane.supervisor.settings import ChildSpec, ServeSettings, gateway_spec
from dataplane.clock import monotonic_clock
from dataplane.gateway.status import read_status
from dataplane.processes import ProcessDirectory, ProcessRecord, is_alive, terminate

pytestmark = pytest.mark.timeout(400)


class Clock:
    """The monotonic one, which a test may put forward."""

    def __init__(self) -> None:
        self.skew_seconds = 0.0

    def __call__(self) -> float:
        return monotonic_clock() + self.skew_seconds


class Room:
    """One state directory and the gateways in it."""

    def __init__(self, folder: Path) -> None:
        self.directory = ProcessDirectory(folder)
        self.said: list[str] = []
        self.clock = Clock()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.settings = ServeSettings(
            state_dir=folder, port=1, gateway_port=port, config_dir=None, drain_seconds=5
        )
        self.spec = gateway_spec(self.settings)

    def child(self, spec: ChildSpec | None = None) -> GatewayChild:
        return GatewayChild(
            self.directory,
            spec or self.spec,
            self.said.append,
            self.clock,
            self.settings.gateway_state_dir,
            self.settings.drain_seconds,
        )

    @property
    def serving(self) -> int | None:
        """The pid of the one that serves."""
        try:
            return read_status(self.settings.gateway_state_dir).pid
        except FileNotFoundError:
            return None

    def history(self) -> list[ProcessEvent]:
        """The newest first."""
        return ProcessHistory(self.directory.state_dir).read(10)

    def living(self) -> list[ProcessRecord]:
        return [record for record in self.directory.records() if is_alive(record)]

    def answers(self) -> bool:
        return answers("127.0.0.1", self.settings.gateway_port, "/healthz")


def wait_until(condition: Callable[[], bool], child: GatewayChild) -> None:
    deadline = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        child.check()
        time.sleep(0.02)


@contextmanager
def open_request(port: int) -> Iterator[None]:
    """A request that is on its way in: whoever has it, stays for it."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
            b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
        )
        yield


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    for record in room.directory.records():
        terminate(record, grace_seconds=0)


@pytest.fixture
def child(room: Room) -> GatewayChild:
    """One that serves."""
    child = room.child()
    child.start()
    wait_until(lambda: room.serving is not None, child)
    return child


def test_a_restart_puts_a_new_process_in_the_place_of_the_old_one_and_forgets_that(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    child.restart("asked for")
    wait_until(lambda: room.serving != before, child)
    wait_until(lambda: len(room.directory.records()) == 1, child)
    (record,) = room.living()
    assert record.pid == room.serving
    assert room.answers()
    assert f"pid {record.pid} took over from pid {before}" in room.said[-2]
    assert room.said[-1].endswith("has left: it exited with code 0")
    # Both write to the log that people know.
    assert record.log_path == str(room.directory.log_path("gateway-0"))
    child.restart("again")
    wait_until(lambda: room.serving != record.pid, child)
    wait_until(lambda: [r.name for r in room.directory.records()] == ["gateway-0"], child)
    assert room.history() == [], "nothing failed"


def test_a_new_one_that_cannot_start_leaves_the_old_one_serving(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    child.spec = replace(room.spec, argv=(*room.spec.argv, "--no-such-option"))
    child.restart("asked for")
    wait_until(lambda: "was not replaced" in room.said[-1], child)
    assert "No such option" in room.said[-1]
    assert f"pid {before} serves on" in room.said[-1]
    assert room.serving == before
    assert [record.pid for record in room.living()] == [before]
    assert [record.name for record in room.directory.records()] == ["gateway-0"]
    assert room.answers()
    (event,) = room.history()
    assert (event.name, event.role, event.what) == ("gateway-0", "gateway", "failed")
    assert "it was not replaced: it exited with code 2; " in event.reason
    assert f"pid {before} serves on" in event.reason


def test_one_that_is_killed_while_it_drains_is_in_the_history_like_any_other(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    assert before is not None
    with open_request(room.settings.gateway_port):
        child.restart("asked for")
        wait_until(lambda: f"took over from pid {before}" in room.said[-1], child)
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: "has left" in room.said[-1], child)
    (event,) = room.history()
    assert (event.name, event.role, event.what) == ("gateway-0", "gateway", "failed")
    assert event.reason == f"pid {before}, which was draining: it was ended by SIGKILL"
    assert room.answers()


def test_one_that_is_forced_to_end_its_draining_is_in_the_history(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    with open_request(room.settings.gateway_port):
        child.restart("asked for")
        wait_until(lambda: f"took over from pid {before}" in room.said[-1], child)
        room.clock.skew_seconds += 1000
        wait_until(lambda: "has left" in room.said[-1], child)
    (event,) = room.history()
    assert event.reason == (
        f"pid {before}, which was draining: it was ended by SIGKILL, as it did not end by itself"
    )


def test_one_that_dies_while_its_successor_starts_is_followed_by_that(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    assert before is not None
    child.restart("asked for")
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: room.serving != before and room.answers(), child)
    # Whoever is second notices that it comes too late, and leaves.
    wait_until(lambda: [record.pid for record in room.living()] == [room.serving], child)
    (event,) = room.history()
    assert event.reason.startswith("it was ended by SIGKILL, while pid ")


def test_a_new_supervisor_replaces_one_of_other_settings_without_ending_it_first(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    second = room.child(replace(room.spec, argv=(*room.spec.argv, "--drain-seconds", "7")))
    assert second.adopt()
    assert "started with other settings" in room.said[-1]
    wait_until(lambda: room.serving != before, second)
    wait_until(lambda: len(room.living()) == 1, second)
    assert not any("force" in line for line in room.said)


def test_a_new_supervisor_adopts_the_one_that_serves_and_lets_the_others_leave(
    room: Room, child: GatewayChild
) -> None:
    before = room.serving
    child.restart("asked for")  # and this supervisor dies here
    deadline = time.monotonic() + 150
    while room.serving == before and time.monotonic() < deadline:
        time.sleep(0.02)
    second = room.child()
    assert second.adopt()
    assert f"adopted gateway-0.1, pid {room.serving}" in room.said
    wait_until(lambda: len(room.living()) == 1, second)
    assert room.answers()


def test_one_that_listens_elsewhere_than_asked_is_drained_and_not_adopted(
    room: Room, child: GatewayChild
) -> None:
    second = room.child(replace(room.spec, port=room.spec.port + 1))
    assert not second.adopt()
    assert "draining gateway-0" in room.said[-1]
    wait_until(lambda: room.living() == [], second)

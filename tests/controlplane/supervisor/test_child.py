"""Children of the supervisor: adopted when they are the same, started again when they die."""

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.process_history import ProcessHistory
from controlplane.supervisor.child import Child, GivenUpError, last_line
from controlplane.supervisor.settings import CONTROL_PLANE, ChildSpec
from dataplane.processes import ProcessDirectory, is_alive, send_signal, terminate, wait_for_exit


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Room:
    """A state directory, and what was said."""

    def __init__(self, folder: Path) -> None:
        self.directory = ProcessDirectory(folder)
        self.said: list[str] = []
        self.clock = Clock()

    def child(self, *argv: str) -> Child:
        spec = ChildSpec(name="one", role="gateway", host="127.0.0.1", port=1, argv=argv)
        return Child(self.directory, spec, self.said.append, self.clock)

    def pid(self) -> int:
        record = self.directory.find("one")
        assert record is not None
        return record.pid

    def die(self) -> None:
        record = self.directory.find("one")
        assert record is not None
        send_signal(record, signal.SIGKILL)
        assert wait_for_exit(record, 10)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    for record in room.directory.records():
        terminate(record, grace_seconds=0)


SLEEP = ("sleep", "300")


def test_a_child_that_died_is_started_again_at_once_and_then_after_growing_pauses(
    room: Room,
) -> None:
    child = room.child(*SLEEP)
    child.start()
    first = room.pid()
    room.die()
    child.check()
    child.check()
    second = room.pid()
    assert second != first
    room.die()
    child.check()
    child.check()
    assert room.pid() == second
    room.clock.now += 1
    child.check()
    assert room.pid() != second
    assert room.said == [
        "one: it was ended by SIGKILL; starting it again in 0 s",
        "one: it was ended by SIGKILL; starting it again in 1 s",
    ]


def test_that_it_failed_and_was_started_again_is_in_the_history(room: Room, tmp_path: Path) -> None:
    child = room.child(*SLEEP)
    child.start()
    room.die()
    child.check()
    child.check()
    started, failed = ProcessHistory(tmp_path).read(10)
    assert (failed.name, failed.role, failed.what) == ("one", "gateway", "failed")
    assert failed.reason == "it was ended by SIGKILL"
    assert started.what == "started"
    assert started.at_unix_ns >= failed.at_unix_ns


def test_a_history_that_cannot_be_written_keeps_nothing_from_being_started(
    room: Room, tmp_path: Path
) -> None:
    (tmp_path / "process-events.jsonl").mkdir()
    child = room.child(*SLEEP)
    child.start()
    first = room.pid()
    room.die()
    child.check()
    child.check()
    assert room.pid() != first
    assert any("is not in the history" in said for said in room.said)


def let_it_die_often(room: Room, child: Child) -> None:
    for _ in range(20):
        record = room.directory.find("one")
        assert record is not None
        wait_for_exit(record, 10)
        child.check()
        room.clock.now += 40


def test_one_that_never_stays_up_is_given_up_with_its_last_words(room: Room) -> None:
    child = room.child("sh", "-c", "echo the port is taken >&2; exit 1")
    child.start()
    with pytest.raises(GivenUpError, match=r"does not stay up.*the port is taken") as raised:
        let_it_die_often(room, child)
    assert raised.value.exit_code == 1


def test_one_that_refuses_is_not_started_again(room: Room) -> None:
    child = room.child("sh", "-c", "echo 'Error: upgrade the database' >&2; exit 3")
    child.start()
    record = room.directory.find("one")
    assert record is not None
    wait_for_exit(record, 10)
    with pytest.raises(GivenUpError, match=r"^upgrade the database$") as raised:
        child.check()
    assert raised.value.exit_code == 3


def test_what_was_started_with_other_settings_is_ended_not_adopted(room: Room) -> None:
    room.child(*SLEEP).start()
    record = room.directory.find("one")
    assert record is not None
    assert not room.child("sleep", "301").adopt()
    assert not is_alive(record)
    assert room.said[-1] == f"ending one, pid {record.pid}: it was started with other settings"


def test_what_does_not_answer_is_ended_not_adopted(room: Room) -> None:
    room.child(*SLEEP).start()
    record = room.directory.find("one")
    assert record is not None
    assert not room.child(*SLEEP).adopt()
    assert not is_alive(record)
    assert room.said[-1].endswith("it does not answer on port 1")


def test_telemetry_settings_and_arguments_count_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = ChildSpec(name="one", role="gateway", host="h", port=1, argv=(sys.executable, "-V"))
    before = spec.digest
    monkeypatch.setenv("UNRELATED", "1")
    assert spec.digest == before
    assert replace(spec, argv=(sys.executable,)).digest != before
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    assert spec.digest != before


def test_what_may_be_started_for_config_counts_for_the_control_plane_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = ChildSpec(name="gateway-0", role="gateway", host="h", port=1, argv=("x",))
    control_plane = replace(gateway, name=CONTROL_PLANE)
    before = gateway.digest, control_plane.digest
    monkeypatch.setenv("ENGINE_PROGRAMS", "/opt/vllm/bin/vllm")
    assert gateway.digest == before[0]
    assert control_plane.digest != before[1]


def test_the_last_line_skips_empty_ones(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nError: the last\n\n")
    assert last_line(str(log)) == "the last"


def test_the_last_line_of_one_of_two_that_share_a_log_is_its_own(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text('Error: no such option\n{"event": "retry", "gateway_id": "gateway-0-1"}\n')
    assert last_line(str(log), "gateway-0-1") == "no such option"

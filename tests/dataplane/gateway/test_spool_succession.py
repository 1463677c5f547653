"""What a gateway that is gone left is sent by its successor, once and under its id."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dataplane.gateway.ownership import claim
from dataplane.gateway.spool import RecordSpool
from tests.dataplane.gateway.spooling import (
    GATEWAY,
    ControlPlane,
    left_in,
    spooled_record,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_waits")]


async def test_a_successor_sends_what_its_predecessor_left_under_the_predecessors_id(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    predecessor = RecordSpool(tmp_path, "gateway-0-a", None)
    for sequence in range(5):
        predecessor.put(spooled_record(sequence))
    predecessor.close()
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    assert successor.num_spooled == 5
    successor.put(spooled_record(0, "gateway-0-b"))
    assert await successor.flush(5)
    successor.close()
    assert control_plane.stored("gateway-0-a") == [0, 1, 2, 3, 4]
    assert control_plane.stored("gateway-0-b") == [0]
    assert left_in(tmp_path) == []


@pytest.mark.timeout(60)
async def test_the_gateway_serves_on_while_it_reads_what_another_left(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    left = tmp_path / "gateway-0-a"
    left.mkdir()
    (left / "lock").touch()
    os.mkfifo(left / "000000000001.records")  # reading it ends when somebody has written to it
    adopting = asyncio.create_task(spool.adopt_abandoned())
    await asyncio.sleep(0.1)
    assert not adopting.done()
    await asyncio.to_thread((left / "000000000001.records").write_bytes, b"{}\n{}\n")
    await adopting
    assert spool.num_spooled == 2
    spool.close()


async def test_the_lost_record_of_a_dead_gateway_is_sent_under_its_id_after_its_real_ones(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    predecessor = RecordSpool(tmp_path, "gateway-0-a", None)
    predecessor.put(spooled_record(0))
    predecessor.close()
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    successor.put(spooled_record(1, "gateway-0-a"))
    assert await successor.flush(5)
    successor.close()
    assert control_plane.stored("gateway-0-a") == [0, 1]


async def test_a_predecessor_that_still_drains_keeps_its_records(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    draining = RecordSpool(tmp_path, "gateway-0-a", None)
    draining.put(spooled_record(0))
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    assert successor.num_spooled == 0
    assert await successor.flush(1)
    successor.close()
    assert control_plane.batches == []
    assert draining.num_spooled == 1
    draining.close()


async def test_one_gateway_id_is_never_used_twice_at_once(tmp_path: Path) -> None:
    first = RecordSpool(tmp_path, GATEWAY, None)
    with pytest.raises(RuntimeError, match="another process uses the gateway id gateway-0-a"):
        RecordSpool(tmp_path, GATEWAY, None)
    first.close()


_DIES_WHILE_WRITING = """
import os, sys
from pathlib import Path
from dataplane.gateway.spool import RecordSpool
from tests.dataplane.golden_request import golden_record
spool = RecordSpool(Path(sys.argv[1]), "gateway-0-a", None)
for sequence in range(1000000):
    spool.put(golden_record(gateway_sequence=sequence))
    print(sequence, flush=True)
"""


def _write_until_killed(directory: Path) -> list[int]:
    """The sequence numbers that a gateway had put into its spool when it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _DIES_WHILE_WRITING, directory],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    told += [int(line) for line in process.stdout.read().splitlines()]
    process.wait()
    process.stdout.close()
    segment = max((directory / "gateway-0-a").glob("*.records"))
    with segment.open("ab") as file:
        file.write(b'{"request_id": "torn')
    return told


async def test_after_kill_9_every_record_whose_put_returned_arrives(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    told = _write_until_killed(tmp_path)
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    assert await successor.flush(20)
    successor.close()
    stored = control_plane.stored("gateway-0-a")
    assert stored[: len(told)] == told
    assert len(stored) <= len(told) + 1, "one more may have been written than was told"


def test_an_owned_directory_is_claimed_again_only_after_its_release(tmp_path: Path) -> None:
    owned = claim(tmp_path / "a")
    assert owned is not None
    assert claim(tmp_path / "a") is None
    owned.release()
    again = claim(tmp_path / "a")
    assert again is not None
    again.remove()
    assert left_in(tmp_path) == []


def test_a_directory_is_not_claimed_while_its_owner_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = claim(tmp_path / "a")
    assert owned is not None
    lock = fcntl.flock

    def remove_before_the_lock(file: int, operation: int) -> None:
        assert owned is not None
        owned.remove()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove_before_the_lock)
    assert claim(tmp_path / "a") is None
    assert left_in(tmp_path) == []


def test_an_owner_that_removes_its_directory_leaves_a_successors_lock_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = claim(tmp_path / "a")
    assert owned is not None
    successors = []
    rmdir = Path.rmdir

    def claim_before_the_end(path: Path) -> None:
        successors.append(claim(path))
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", claim_before_the_end)
    owned.remove()
    monkeypatch.undo()
    (successor,) = successors
    assert successor is not None
    successor.remove()
    assert left_in(tmp_path) == []

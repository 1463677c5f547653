"""The spool: nothing is lost that fits, what is lost is counted, and nobody waits."""

import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.gateway import spool as spool_module
from dataplane.gateway.ownership import claim
from dataplane.gateway.segment import Segment
from dataplane.gateway.spool import RecordSpool
from dataplane.record import RequestRecord, encode_record
from tests.dataplane.golden_request import golden_record

pytestmark = pytest.mark.anyio

_GATEWAY = "gateway-0-a"


def _record(sequence: int, gateway_id: str = _GATEWAY) -> RequestRecord:
    return golden_record(
        gateway_id=gateway_id, gateway_sequence=sequence, request_id=f"request-{sequence}"
    )


class ControlPlane:
    """Takes batches as the control plane does, and can be away or refuse."""

    def __init__(self) -> None:
        self.is_away = False
        self.status = 503
        """What is answered while it is away."""
        self.poison: set[int] = set()
        """Sequence numbers it refuses with 422."""
        self.batches: list[dict[str, Any]] = []
        self.num_calls = 0

    async def send(self, body: bytes) -> None:
        self.num_calls += 1
        await asyncio.sleep(0)
        if self.is_away:
            self._refuse(self.status)
        batch = json.loads(body)
        if self.poison & {record["gateway_sequence"] for record in batch["records"]}:
            self._refuse(422)
        self.batches.append(batch)

    def _refuse(self, status: int) -> None:
        request = httpx.Request("POST", "http://control-plane/api/v1/records")
        raise httpx.HTTPStatusError(
            f"{status}", request=request, response=httpx.Response(status, request=request)
        )

    def stored(self, gateway_id: str = _GATEWAY) -> list[int]:
        """Sequence numbers, in the order they came."""
        return [
            record["gateway_sequence"]
            for batch in self.batches
            if batch["gateway_id"] == gateway_id
            for record in batch["records"]
        ]


@pytest.fixture
def control_plane() -> ControlPlane:
    return ControlPlane()


@contextlib.asynccontextmanager
async def _running(spool: RecordSpool) -> AsyncIterator[RecordSpool]:
    task = asyncio.create_task(spool.run())
    try:
        yield spool
    finally:
        task.cancel()
        await asyncio.wait({task})
        spool.close()


async def _until_empty(spool: RecordSpool, timeout_seconds: float = 5.0) -> None:
    async with asyncio.timeout(timeout_seconds):
        while spool.num_spooled:  # noqa: ASYNC110 - the spool tells nobody when it is empty
            await asyncio.sleep(0.005)


def _left_in(directory: Path) -> list[Path]:
    return list(directory.rglob("*"))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "_FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(spool_module, "_GATHER_SECONDS", 0.01)


async def test_records_arrive_whole_in_order_and_once(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    async with _running(RecordSpool(tmp_path, _GATEWAY, control_plane.send)) as spool:
        for sequence in range(50):
            spool.put(_record(sequence))
            if sequence % 7 == 0:
                await asyncio.sleep(0.001)
        await _until_empty(spool)
    assert control_plane.stored() == list(range(50))
    assert {batch["num_lost"] for batch in control_plane.batches} == {0}
    assert control_plane.batches[0]["records"][0]["events"][0]["kind"] == "arrived"


async def test_a_batch_holds_no_more_than_its_bound(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send, max_batch=10)
    for sequence in range(25):
        spool.put(_record(sequence))
    assert await spool.flush(5)
    assert [len(batch["records"]) for batch in control_plane.batches] == [10, 10, 5]
    spool.close()


async def test_nothing_stays_on_disk_once_everything_arrived(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send)
    spool.put(_record(0))
    assert spool.num_bytes > 0
    assert await spool.flush(5)
    spool.close()
    assert _left_in(tmp_path) == []


@pytest.mark.parametrize("status", [500, 503, 429, 401, 404])
async def test_records_wait_while_the_control_plane_is_away_and_arrive_when_it_is_back(
    status: int, tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away, control_plane.status = True, status
    async with _running(RecordSpool(tmp_path, _GATEWAY, control_plane.send)) as spool:
        for sequence in range(20):
            spool.put(_record(sequence))
        await asyncio.sleep(0.05)
        assert control_plane.num_calls > 1
        assert spool.num_spooled == 20
        control_plane.is_away = False
        await _until_empty(spool)
    assert control_plane.stored() == list(range(20))


async def test_waits_grow_while_the_control_plane_is_away(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away = True
    async with _running(RecordSpool(tmp_path, _GATEWAY, control_plane.send)) as spool:
        spool.put(_record(0))
        await asyncio.sleep(0.3)
    # 0.01 s doubling, each at least half: no more than six waits fit into 0.3 s.
    assert 2 <= control_plane.num_calls <= 7


async def test_flush_gives_up_in_time_and_says_so(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away = True
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send)
    spool.put(_record(0))
    began = time.monotonic()
    assert not await spool.flush(0.1)
    assert time.monotonic() - began < 1
    assert spool.num_spooled == 1
    spool.close()


async def test_without_a_control_plane_records_stay_on_disk(tmp_path: Path) -> None:
    async with _running(RecordSpool(tmp_path, _GATEWAY, None)) as spool:
        spool.put(_record(0))
        await asyncio.sleep(0.02)
        assert spool.num_spooled == 1
        assert not await spool.flush(1)


async def test_a_successor_sends_what_its_predecessor_left_under_the_predecessors_id(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    predecessor = RecordSpool(tmp_path, "gateway-0-a", None)
    for sequence in range(5):
        predecessor.put(_record(sequence))
    predecessor.close()
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    assert successor.num_spooled == 5
    successor.put(_record(0, "gateway-0-b"))
    assert await successor.flush(5)
    successor.close()
    assert control_plane.stored("gateway-0-a") == [0, 1, 2, 3, 4]
    assert control_plane.stored("gateway-0-b") == [0]
    assert _left_in(tmp_path) == []


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
    predecessor.put(_record(0))
    predecessor.close()
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    successor.put(_record(1, "gateway-0-a"))
    assert await successor.flush(5)
    successor.close()
    assert control_plane.stored("gateway-0-a") == [0, 1]


async def test_a_predecessor_that_still_drains_keeps_its_records(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    draining = RecordSpool(tmp_path, "gateway-0-a", None)
    draining.put(_record(0))
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    assert successor.num_spooled == 0
    assert await successor.flush(1)
    successor.close()
    assert control_plane.batches == []
    assert draining.num_spooled == 1
    draining.close()


async def test_one_gateway_id_is_never_used_twice_at_once(tmp_path: Path) -> None:
    first = RecordSpool(tmp_path, _GATEWAY, None)
    with pytest.raises(RuntimeError, match="another process uses the gateway id gateway-0-a"):
        RecordSpool(tmp_path, _GATEWAY, None)
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


async def test_over_the_bound_the_oldest_go_and_are_counted(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away = True
    max_bytes = 64 * 2**10
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send, max_bytes=max_bytes)
    num_records = 200
    for sequence in range(num_records):
        spool.put(_record(sequence))
        assert spool.num_bytes <= max_bytes
    on_disk = sum(path.stat().st_size for path in _left_in(tmp_path) if path.suffix == ".records")
    assert on_disk == spool.num_bytes > max_bytes / 2
    assert spool.num_lost + spool.num_spooled == num_records
    assert spool.num_lost > 0
    num_kept = spool.num_spooled
    control_plane.is_away = False
    assert await spool.flush(5)
    spool.close()
    assert control_plane.stored() == list(range(num_records - num_kept, num_records))
    assert control_plane.batches[-1]["num_lost"] == num_records - num_kept


async def test_the_count_of_lost_records_survives_the_gateway(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    predecessor = RecordSpool(tmp_path, "gateway-0-a", None, max_bytes=32 * 2**10)
    for sequence in range(100):
        predecessor.put(_record(sequence))
    num_lost = predecessor.num_lost
    predecessor.close()
    successor = RecordSpool(tmp_path, "gateway-0-b", control_plane.send)
    assert successor.num_lost == 0, "its own are counted apart"
    assert await successor.flush(5)
    successor.close()
    assert {batch["num_lost"] for batch in control_plane.batches} == {num_lost}
    assert num_lost > 0


async def test_losses_that_no_batch_told_are_told_by_the_successor(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    predecessor = RecordSpool(tmp_path, "gateway-0-a", None, max_bytes=1)
    predecessor.put(_record(0))
    predecessor.close()
    async with _running(RecordSpool(tmp_path, "gateway-0-b", control_plane.send)):
        async with asyncio.timeout(5):
            while not control_plane.batches:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.005)
    assert control_plane.batches == [{"gateway_id": "gateway-0-a", "num_lost": 1, "records": []}]
    assert _left_in(tmp_path) == []


async def test_a_disk_that_cannot_be_read_for_a_while_only_delays_records(
    tmp_path: Path, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_unsent = Segment.read_unsent
    num_failures = iter(range(2))

    def fail_twice(segment: Segment, max_records: int, max_bytes: int) -> list[bytes]:
        if next(num_failures, None) is not None:
            raise OSError("Input/output error")
        return read_unsent(segment, max_records, max_bytes)

    monkeypatch.setattr(Segment, "read_unsent", fail_twice)
    async with _running(RecordSpool(tmp_path, _GATEWAY, control_plane.send)) as spool:
        spool.put(_record(0))
        await _until_empty(spool)
    assert control_plane.stored() == [0]


async def test_what_is_being_sent_is_not_dropped_under_the_sender(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send, max_bytes=32 * 2**10)
    next_sequence = 0
    send = control_plane.send

    async def send_while_the_spool_overflows(body: bytes) -> None:
        nonlocal next_sequence
        for _ in range(30):
            if next_sequence < 100:
                spool.put(_record(next_sequence))
                next_sequence += 1
        await send(body)

    spool._send = send_while_the_spool_overflows
    spool.put(_record(next_sequence))
    next_sequence += 1
    assert await spool.flush(5)
    stored = control_plane.stored()
    assert len(stored) == len(set(stored)), "nothing was sent twice"
    assert len(stored) + spool.num_lost == 100
    spool.close()


async def test_a_poisonous_record_is_set_aside_and_the_others_arrive(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.poison = {3, 11}
    async with _running(RecordSpool(tmp_path, _GATEWAY, control_plane.send)) as spool:
        for sequence in range(16):
            spool.put(_record(sequence))
        await _until_empty(spool)
        assert spool.num_refused == spool.num_lost == 2
        assert await spool.flush(5)
        num_calls = control_plane.num_calls
        await asyncio.sleep(0.05)
        assert control_plane.num_calls == num_calls, "it is not tried again"
    assert control_plane.stored() == [s for s in range(16) if s not in control_plane.poison]
    assert control_plane.batches[-1]["num_lost"] == 2
    aside = (tmp_path / "refused.jsonl").read_text().splitlines()
    assert [json.loads(line)["gateway_sequence"] for line in aside] == [3, 11]


async def test_a_refusal_in_the_middle_of_an_outage_counts_once(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.poison = {0}
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send)
    for sequence in range(2):
        spool.put(_record(sequence))

    async def fail_after_the_first_half(body: bytes) -> None:
        control_plane.is_away = control_plane.num_calls == 2
        await control_plane.send(body)

    spool._send = fail_after_the_first_half
    assert await spool.flush(5)
    assert (spool.num_refused, spool.num_lost) == (1, 1)
    assert control_plane.stored() == [1]
    spool.close()


class FullDisk:
    """Takes `room` bytes of each write, and no new file where `room` is none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = 0
        """None: the disk has room."""
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self._write)

    def _write(self, file: int, data: bytes, offset: int) -> int:
        if self.room == 0:
            raise OSError(28, "No space left on device")
        return self._pwrite(file, data[: self.room], offset)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


async def test_a_full_disk_costs_neither_records_nor_requests(
    tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    full_disk.room = None
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send)
    spool.put(_record(0))
    full_disk.room = 0
    spool.put(_record(1))
    full_disk.room = 100  # the next write fits in part: nothing of it may stay
    spool.put(_record(2))
    assert (spool.num_held, spool.num_spooled, spool.num_lost) == (2, 3, 0)
    full_disk.room = None
    spool.put(_record(3))
    assert (spool.num_held, spool.num_spooled) == (0, 4)
    assert await spool.flush(5)
    assert control_plane.stored() == [0, 1, 2, 3]
    spool.close()


@pytest.mark.parametrize("status", [500, 503, 507])
async def test_what_is_held_waits_for_a_control_plane_that_has_no_room_either(
    status: int, tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    control_plane.is_away, control_plane.status = True, status
    async with _running(RecordSpool(tmp_path, _GATEWAY, control_plane.send)) as spool:
        for sequence in range(19):
            spool.put(_record(sequence))
            await asyncio.sleep(0.001)
        assert (spool.num_held, spool.num_lost) == (19, 0)
        control_plane.is_away = False
        await _until_empty(spool)  # the disk is full as before
    assert control_plane.stored() == list(range(19))
    assert control_plane.batches[-1]["num_lost"] == 0


async def test_what_memory_cannot_hold_goes_oldest_first_and_is_counted(
    tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    room = 3 * len(encode_record(_record(0)))
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send, max_held_bytes=room)
    for sequence in range(8):
        spool.put(_record(sequence))
    assert (spool.num_held, spool.num_lost) == (3, 5)
    assert await spool.flush(5)
    assert control_plane.stored() == [5, 6, 7]
    assert control_plane.batches[-1]["num_lost"] == 5
    spool.close()


async def test_a_held_record_in_a_batch_is_not_given_up_under_the_sender(
    tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    room = 2 * len(encode_record(_record(0)))
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send, max_batch=2, max_held_bytes=room)
    spool.put(_record(0))
    spool.put(_record(1))
    sending = asyncio.create_task(spool.flush(5))
    while not control_plane.num_calls:  # noqa: ASYNC110 - nobody tells when a batch is on its way
        await asyncio.sleep(0)
    spool.put(_record(2))  # goes itself: what there is room for is on its way
    assert await sending
    assert control_plane.stored() == [0, 1]
    assert (spool.num_lost, control_plane.batches[-1]["num_lost"]) == (1, 1)
    spool.close()


async def test_what_is_held_reaches_the_disk_at_the_end_or_is_counted(
    tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    for gateway_id, room, num_lost in (("gateway-0-a", None, 0), ("gateway-0-b", 0, 2)):
        full_disk.room = 0
        spool = RecordSpool(tmp_path, gateway_id, None)
        spool.put(_record(0, gateway_id))
        spool.put(_record(1, gateway_id))
        full_disk.room = room
        spool.close()
        assert spool.num_lost == num_lost
    successor = RecordSpool(tmp_path, "gateway-0-c", control_plane.send)
    assert await successor.flush(5)
    assert control_plane.stored("gateway-0-a") == [0, 1]
    told = {batch["gateway_id"]: batch["num_lost"] for batch in control_plane.batches}
    assert told == {"gateway-0-a": 0, "gateway-0-b": 2}
    successor.close()


async def test_a_directory_that_cannot_be_written_costs_neither_records_nor_requests(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, _GATEWAY, control_plane.send)
    (tmp_path / _GATEWAY / "000000000001.records").mkdir()  # in the way of the first segment
    spool.put(_record(0))
    assert (spool.num_held, spool.num_lost) == (1, 0)
    spool.put(_record(1))
    assert await spool.flush(5)
    assert control_plane.stored() == [0, 1]
    (tmp_path / _GATEWAY / "000000000001.records").rmdir()
    spool.close()


async def test_putting_a_record_takes_no_time_that_a_request_would_notice(tmp_path: Path) -> None:
    spool = RecordSpool(tmp_path, _GATEWAY, None)
    records = [dataclasses.replace(_record(0), gateway_sequence=n) for n in range(500)]
    began = time.monotonic()
    for record in records:
        spool.put(record)
    assert (time.monotonic() - began) / len(records) < 0.01
    spool.close()


def test_an_owned_directory_is_claimed_again_only_after_its_release(tmp_path: Path) -> None:
    owned = claim(tmp_path / "a")
    assert owned is not None
    assert claim(tmp_path / "a") is None
    owned.release()
    again = claim(tmp_path / "a")
    assert again is not None
    again.remove()
    assert _left_in(tmp_path) == []


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
    assert _left_in(tmp_path) == []


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
    assert _left_in(tmp_path) == []

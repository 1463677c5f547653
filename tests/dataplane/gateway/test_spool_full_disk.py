"""A disk that is full or cannot be written costs neither records nor requests."""

import asyncio
import os
from pathlib import Path

import pytest

from dataplane.gateway.spool import RecordSpool
from dataplane.record import encode_record
from tests.dataplane.gateway.spooling import (
    GATEWAY,
    ControlPlane,
    running_spool,
    spooled_record,
    until_empty,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_waits")]


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
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send)
    spool.put(spooled_record(0))
    full_disk.room = 0
    spool.put(spooled_record(1))
    full_disk.room = 100  # the next write fits in part: nothing of it may stay
    spool.put(spooled_record(2))
    assert (spool.num_held, spool.num_spooled, spool.num_lost) == (2, 3, 0)
    full_disk.room = None
    spool.put(spooled_record(3))
    assert (spool.num_held, spool.num_spooled) == (0, 4)
    assert await spool.flush(5)
    assert control_plane.stored() == [0, 1, 2, 3]
    spool.close()


@pytest.mark.parametrize("status", [500, 503, 507])
async def test_what_is_held_waits_for_a_control_plane_that_has_no_room_either(
    status: int, tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    control_plane.is_away, control_plane.status = True, status
    async with running_spool(RecordSpool(tmp_path, GATEWAY, control_plane.send)) as spool:
        for sequence in range(19):
            spool.put(spooled_record(sequence))
            await asyncio.sleep(0.001)
        assert (spool.num_held, spool.num_lost) == (19, 0)
        control_plane.is_away = False
        await until_empty(spool)  # the disk is full as before
    assert control_plane.stored() == list(range(19))
    assert control_plane.batches[-1]["num_lost"] == 0


async def test_what_memory_cannot_hold_goes_oldest_first_and_is_counted(
    tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    room = 3 * len(encode_record(spooled_record(0)))
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send, max_held_bytes=room)
    for sequence in range(8):
        spool.put(spooled_record(sequence))
    assert (spool.num_held, spool.num_lost) == (3, 5)
    assert await spool.flush(5)
    assert control_plane.stored() == [5, 6, 7]
    assert control_plane.batches[-1]["num_lost"] == 5
    spool.close()


async def test_a_held_record_in_a_batch_is_not_given_up_under_the_sender(
    tmp_path: Path, control_plane: ControlPlane, full_disk: FullDisk
) -> None:
    room = 2 * len(encode_record(spooled_record(0)))
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send, max_batch=2, max_held_bytes=room)
    spool.put(spooled_record(0))
    spool.put(spooled_record(1))
    sending = asyncio.create_task(spool.flush(5))
    while not control_plane.num_calls:  # noqa: ASYNC110 - nobody tells when a batch is on its way
        await asyncio.sleep(0)
    spool.put(spooled_record(2))  # goes itself: what there is room for is on its way
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
        spool.put(spooled_record(0, gateway_id))
        spool.put(spooled_record(1, gateway_id))
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
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send)
    (tmp_path / GATEWAY / "000000000001.records").mkdir()  # in the way of the first segment
    spool.put(spooled_record(0))
    assert (spool.num_held, spool.num_lost) == (1, 0)
    spool.put(spooled_record(1))
    assert await spool.flush(5)
    assert control_plane.stored() == [0, 1]
    (tmp_path / GATEWAY / "000000000001.records").rmdir()
    spool.close()

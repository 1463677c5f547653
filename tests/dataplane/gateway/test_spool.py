"""The spool: nothing is lost that fits, what is lost is counted, and nobody waits."""

import asyncio
import dataclasses
import json
import time
from pathlib import Path

import pytest

from dataplane.gateway.segment import Segment
from dataplane.gateway.spool import RecordSpool
from tests.dataplane.gateway.spooling import (
    GATEWAY,
    ControlPlane,
    left_in,
    running_spool,
    spooled_record,
    until_empty,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_waits")]


async def test_records_arrive_whole_in_order_and_once(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    async with running_spool(RecordSpool(tmp_path, GATEWAY, control_plane.send)) as spool:
        for sequence in range(50):
            spool.put(spooled_record(sequence))
            if sequence % 7 == 0:
                await asyncio.sleep(0.001)
        await until_empty(spool)
    assert control_plane.stored() == list(range(50))
    assert {batch["num_lost"] for batch in control_plane.batches} == {0}
    assert control_plane.batches[0]["records"][0]["events"][0]["kind"] == "arrived"


async def test_a_batch_holds_no_more_than_its_bound(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send, max_batch=10)
    for sequence in range(25):
        spool.put(spooled_record(sequence))
    assert await spool.flush(5)
    assert [len(batch["records"]) for batch in control_plane.batches] == [10, 10, 5]
    spool.close()


async def test_nothing_stays_on_disk_once_everything_arrived(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send)
    spool.put(spooled_record(0))
    assert spool.num_bytes > 0
    assert await spool.flush(5)
    spool.close()
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("status", [500, 503, 429, 401, 404])
async def test_records_wait_while_the_control_plane_is_away_and_arrive_when_it_is_back(
    status: int, tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away, control_plane.status = True, status
    async with running_spool(RecordSpool(tmp_path, GATEWAY, control_plane.send)) as spool:
        for sequence in range(20):
            spool.put(spooled_record(sequence))
        await asyncio.sleep(0.05)
        assert control_plane.num_calls > 1
        assert spool.num_spooled == 20
        control_plane.is_away = False
        await until_empty(spool)
    assert control_plane.stored() == list(range(20))


async def test_waits_grow_while_the_control_plane_is_away(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away = True
    async with running_spool(RecordSpool(tmp_path, GATEWAY, control_plane.send)) as spool:
        spool.put(spooled_record(0))
        await asyncio.sleep(0.3)
    # 0.01 s doubling, each at least half: no more than six waits fit into 0.3 s.
    assert 2 <= control_plane.num_calls <= 7


async def test_flush_gives_up_in_time_and_says_so(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away = True
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send)
    spool.put(spooled_record(0))
    began = time.monotonic()
    assert not await spool.flush(0.1)
    assert time.monotonic() - began < 1
    assert spool.num_spooled == 1
    spool.close()


async def test_without_a_control_plane_records_stay_on_disk(tmp_path: Path) -> None:
    async with running_spool(RecordSpool(tmp_path, GATEWAY, None)) as spool:
        spool.put(spooled_record(0))
        await asyncio.sleep(0.02)
        assert spool.num_spooled == 1
        assert not await spool.flush(1)


async def test_over_the_bound_the_oldest_go_and_are_counted(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    control_plane.is_away = True
    max_bytes = 64 * 2**10
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send, max_bytes=max_bytes)
    num_records = 200
    for sequence in range(num_records):
        spool.put(spooled_record(sequence))
        assert spool.num_bytes <= max_bytes
    on_disk = sum(path.stat().st_size for path in left_in(tmp_path) if path.suffix == ".records")
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
        predecessor.put(spooled_record(sequence))
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
    predecessor.put(spooled_record(0))
    predecessor.close()
    async with running_spool(RecordSpool(tmp_path, "gateway-0-b", control_plane.send)):
        async with asyncio.timeout(5):
            while not control_plane.batches:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.005)
    assert control_plane.batches == [{"gateway_id": "gateway-0-a", "num_lost": 1, "records": []}]
    assert left_in(tmp_path) == []


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
    async with running_spool(RecordSpool(tmp_path, GATEWAY, control_plane.send)) as spool:
        spool.put(spooled_record(0))
        await until_empty(spool)
    assert control_plane.stored() == [0]


async def test_what_is_being_sent_is_not_dropped_under_the_sender(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send, max_bytes=32 * 2**10)
    next_sequence = 0
    send = control_plane.send

    async def send_while_the_spool_overflows(body: bytes) -> None:
        nonlocal next_sequence
        for _ in range(30):
            if next_sequence < 100:
                spool.put(spooled_record(next_sequence))
                next_sequence += 1
        await send(body)

    spool._send = send_while_the_spool_overflows
    spool.put(spooled_record(next_sequence))
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
    async with running_spool(RecordSpool(tmp_path, GATEWAY, control_plane.send)) as spool:
        for sequence in range(16):
            spool.put(spooled_record(sequence))
        await until_empty(spool)
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
    spool = RecordSpool(tmp_path, GATEWAY, control_plane.send)
    for sequence in range(2):
        spool.put(spooled_record(sequence))

    async def fail_after_the_first_half(body: bytes) -> None:
        control_plane.is_away = control_plane.num_calls == 2
        await control_plane.send(body)

    spool._send = fail_after_the_first_half
    assert await spool.flush(5)
    assert (spool.num_refused, spool.num_lost) == (1, 1)
    assert control_plane.stored() == [1]
    spool.close()


async def test_putting_a_record_takes_no_time_that_a_request_would_notice(tmp_path: Path) -> None:
    spool = RecordSpool(tmp_path, GATEWAY, None)
    records = [dataclasses.replace(spooled_record(0), gateway_sequence=n) for n in range(500)]
    began = time.monotonic()
    for record in records:
        spool.put(record)
    assert (time.monotonic() - began) / len(records) < 0.01
    spool.close()

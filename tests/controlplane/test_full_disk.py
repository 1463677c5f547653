"""A full disk: config stays safe, request data is refused and counted, and all goes on after."""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from controlplane.api.app import create_app
from controlplane.open_state import OpenState
from controlplane.operator.settings import OperatorSettings
from controlplane.retention_worker import RetentionWorker
from controlplane.store.archive import ArchiveError
from controlplane.store.backup import write_backup
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import create_or_open_database, open_database
from controlplane.store.records import RecordBatch, ReservoirSizes, decode_batch, store_batch
from controlplane.store.request_tables import MinuteCountRow, RequestRow
from controlplane.store.requests import num_records_lost
from controlplane.store.retention import Retention, StorageSettings
from controlplane.store.room import LogTooLongError
from dataplane.gateway.spool import RecordSpool
from ops.sample_requests import Sample, answered
from tests.controlplane.config_documents import MODEL
from tests.postgresql import Cluster

START_NS = time.time_ns()
"""Of records: nothing of them is so old that it would be removed meanwhile."""
MIB = 2**20
_GATEWAY = Sample(sequence=0, arrived_at_unix_ns=0).gateway_id


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes at `folder`."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"only who may mount can fill a disk: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(folder: Path) -> Path:
    """Take all the room that is left with one file."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(folder).free == 0
    return ballast


@contextmanager
def control_plane(
    config: Path, requests: str, reserve_bytes: int
) -> Iterator[tuple[FastAPI, TestClient]]:
    """A whole one, over a config database in the file `config`."""
    urls = {DatabaseKind.CONFIG: sqlite_url(config), DatabaseKind.REQUESTS: requests}
    for kind, url in urls.items():
        create_or_open_database(url, kind).close()
    opened = OpenState.open(
        config.parent,
        urls[DatabaseKind.CONFIG],
        urls[DatabaseKind.REQUESTS],
        OperatorSettings(),
        StorageSettings(reserve_bytes=reserve_bytes),
    )
    app = create_app(opened)
    with TestClient(app, base_url="http://127.0.0.1") as http:
        yield app, http


def body(first: int, number: int = 50) -> bytes:
    records = tuple(
        answered(Sample(sequence=first + n, arrived_at_unix_ns=START_NS)) for n in range(number)
    )
    return msgspec.json.encode(RecordBatch(gateway_id="g", num_lost=0, records=records))


def send(http: TestClient, first: int, number: int = 50) -> Any:
    return http.post("/api/v1/records", content=body(first, number))


def send_until_refused(http: TestClient) -> tuple[int, Any]:
    """How many records were stored before the one batch that was not."""
    for first in range(0, 100_000, 50):
        response = send(http, first)
        if response.status_code != 200:
            return first, response
    raise AssertionError("the disk did not fill up")


def apply(http: TestClient, number: int) -> int:
    files = [{"name": "m.yaml", "text": MODEL.replace("smollm2.gguf", f"{number}.gguf")}]
    return http.post("/api/v1/apply", json={"files": files}).status_code


def num_offered(app: FastAPI) -> int:
    with app.state.request_db.reading() as session:
        query = select(func.sum(MinuteCountRow.value)).where(MinuteCountRow.measure == "offered")
        return int(session.scalar(query) or 0)


def refusals(http: TestClient) -> float:
    name = "pilothouse_controlplane_request_data_refusals_total"
    lines = http.get("/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def troubles(http: TestClient) -> list[str]:
    return [trouble["what"] for trouble in http.get("/api/v1/overview").json()["troubles"]]


def test_request_data_is_refused_while_there_is_still_room_for_config(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 * MIB) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(14 * MIB))
        requests = sqlite_url(disk / "requests.db")
        with control_plane(disk / "config.db", requests, 4 * MIB) as (app, http):
            stored, refused = send_until_refused(http)

            assert refused.status_code == 507
            assert "the last 4 MiB are kept for config" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) > 0
            assert num_offered(app) == stored > 0
            assert [apply(http, number) for number in range(100)] == [200] * 100
            assert http.get("/healthz").status_code == 200
            assert any("request data is not taken" in what for what in troubles(http))
            assert refusals(http) == 1

            ballast.unlink()
            assert send(http, stored).status_code == 200
            assert not any("request data is not taken" in what for what in troubles(http))
            assert http.get("/api/v1/request-data").json()["refusal"] is None
            assert num_offered(app) == stored + 50


def leave_free(folder: Path, num_bytes: int) -> Path:
    """Take room with a file until so much is left."""
    ballast = folder / "ballast"
    ballast.unlink(missing_ok=True)
    ballast.write_bytes(bytes(shutil.disk_usage(folder).free - num_bytes))
    return ballast


def test_a_delivery_counts_as_what_it_will_take_and_not_as_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 * MIB) as disk:
        requests = sqlite_url(disk / "requests.db")
        with control_plane(tmp_path / "config.db", requests, 4 * MIB) as (app, http):
            assert send(http, 0).status_code == 200
            leave_free(disk, 5 * MIB)
            large, small = body(1000, 200), body(2000, 2)
            assert len(large) > MIB > 2 * len(small)

            assert http.post("/api/v1/records", content=large).status_code == 507
            assert http.post("/api/v1/records", content=small).status_code == 200
            assert num_offered(app) == 52


def test_deliveries_that_waited_for_each_other_do_not_all_take_the_same_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 24 * MIB) as disk:
        requests = sqlite_url(disk / "requests.db")
        with (
            control_plane(tmp_path / "config.db", requests, 4 * MIB) as (app, http),
            ThreadPoolExecutor(4) as pool,
        ):
            with app.state.request_db.session() as session:
                session.connection()  # from here on nobody else writes
                waiting = [pool.submit(send, http, 1000 * n) for n in range(4)]
                time.sleep(1)
                leave_free(disk, 3 * MIB)
            assert [each.result().status_code for each in waiting] == [507] * 4
            assert num_offered(app) == 0


def test_what_is_removed_while_somebody_reads_for_long_leaves_room_for_config(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 24 * MIB) as disk:
        url = sqlite_url(disk / "requests.db")
        create_or_open_database(url, DatabaseKind.REQUESTS).close()
        database = open_database(url, DatabaseKind.REQUESTS, 4 * MIB)
        worker = RetentionWorker(database, Retention(), clock=lambda: START_NS + 10**9 * 10**9)
        with closing(database):
            for first in range(0, 4000, 200):
                with database.adding(0) as session:
                    batch = decode_batch(body(first, 200))
                    store_batch(session, batch, Random(1), ReservoirSizes())
            leave_free(disk, 4 * MIB - 1)
            with database.reading() as session:
                session.scalar(select(func.count()).select_from(RequestRow))
                with pytest.raises(LogTooLongError, match="somebody reads for long"):
                    worker.do_pass()
                assert shutil.disk_usage(disk).free > 0
            assert worker.do_pass() > 0
            with database.reading() as session:
                assert session.scalar(select(func.count()).select_from(RequestRow)) == 0


def test_a_disk_without_any_room_left_stores_no_half_of_a_batch(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        requests = sqlite_url(disk / "requests.db")
        with control_plane(tmp_path / "config.db", requests, 0) as (app, http):
            assert send(http, 0).status_code == 200
            ballast = fill_up(disk)

            refused = [send(http, first, 200) for first in (1000, 1000, 2000)]

            assert [response.status_code for response in refused] == [507] * 3
            assert "its disk is full" in refused[0].json()["detail"]
            assert num_offered(app) == 50
            assert apply(http, 1) == 200
            assert http.get("/api/v1/requests").status_code == 200
            assert http.get("/healthz").status_code == 200

            ballast.unlink()
            assert send(http, 1000).json() == {"stored": 50, "duplicates": 0}
            assert num_offered(app) == 100


def test_a_full_postgresql_is_told_from_a_broken_one(tmp_path: Path, cluster: Cluster) -> None:
    with small_disk(cluster.folder / "small", 64 * MIB) as disk:
        name = cluster.create_on(disk)
        try:
            with control_plane(tmp_path / "config.db", cluster.url(name), 0) as (app, http):
                ballast = fill_up(disk)

                stored, refused = send_until_refused(http)

                assert refused.status_code == 507
                assert "says that its disk is full" in refused.json()["detail"]
                assert num_offered(app) == stored
                assert apply(http, 1) == 200

                ballast.unlink()
                assert send(http, stored).status_code == 200
        finally:
            cluster.drop(name)
            cluster.forget(disk)


def test_a_gateway_keeps_what_is_refused_within_its_bound_and_counts_the_rest(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        requests = sqlite_url(disk / "requests.db")
        with control_plane(tmp_path / "config.db", requests, 0) as (app, http):
            ballast = fill_up(disk)
            spooled, lost = asyncio.run(spool_through(http, tmp_path / "spool", ballast))

            assert lost > 0
            assert spooled + lost == 300
            assert num_offered(app) == spooled
            with app.state.request_db.reading() as session:
                assert num_records_lost(session) == lost


async def spool_through(http: TestClient, folder: Path, ballast: Path) -> tuple[int, int]:
    """Spool 300 records while the disk is full, send them when it is not.

    Returns how many waited and how many were dropped.
    """

    async def deliver(content: bytes) -> None:
        answer = await asyncio.to_thread(http.post, "/api/v1/records", content=content)
        request = httpx.Request("POST", str(answer.url))
        httpx.Response(answer.status_code, request=request).raise_for_status()

    spool = RecordSpool(folder, _GATEWAY, deliver, max_bytes=MIB // 8)
    for number in range(300):
        spool.put(answered(Sample(sequence=number, arrived_at_unix_ns=START_NS)))
        if number % 50 == 0:
            assert not await spool.flush(0.3)
    assert spool.num_bytes <= MIB // 8
    spooled, lost = spool.num_spooled, spool.num_lost
    await asyncio.to_thread(ballast.unlink)
    assert await spool.flush(60)
    spool.close()
    return spooled, lost


def test_a_file_that_may_grow_no_further_is_a_full_disk_too(tmp_path: Path) -> None:
    """Whoever we are: the kernel refuses the write, and the process goes on."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines() == ["507", "200", "50"]


def limited(folder: Path) -> list[Any]:
    """In a process of its own: a batch under a limit on the size of files, and one without."""
    with control_plane(folder / "config.db", sqlite_url(folder / "requests.db"), 0) as (app, http):
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
        refused = send(http, 0, 2000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        taken = send(http, 0)
        return [refused.status_code, taken.status_code, num_offered(app)]


_CHILD = """
import sys
from pathlib import Path
from tests.controlplane.test_full_disk import limited
print(*limited(Path(sys.argv[1])), sep="\\n")
"""


def test_a_backup_without_room_leaves_nothing_behind(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "config.db")
    with closing(create_or_open_database(url, DatabaseKind.CONFIG)):
        pass
    with small_disk(tmp_path / "disk", MIB) as disk:
        ballast = fill_up(disk)
        with pytest.raises(ArchiveError, match="cannot be written: No space left"):
            write_backup(disk / "b.tar.gz", {DatabaseKind.CONFIG: url}, lambda *_: None)
        assert list(disk.iterdir()) == [ballast]

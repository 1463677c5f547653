"""The gateways' side of the API, over real HTTP."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from controlplane.api.gateways import MAX_REPORT_BYTES, snapshot_events
from controlplane.operator.feed import SnapshotFeed
from controlplane.store.connection import DatabaseKind
from dataplane.access import AccessKey, Role
from dataplane.policy import Snapshot, decode_snapshot
from dataplane.snapshot_change import apply_change, decode_change
from tests.controlplane.quiet_gateway import quiet_report
from tests.databases import create_sqlite


def report(name: str = "gateway-0", snapshot_version: int = 1) -> bytes:
    return msgspec.json.encode(quiet_report(name, snapshot_version=snapshot_version))


@contextlib.contextmanager
def control_plane(state_dir: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A real one, in its own process; ended whatever happens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (state_dir / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "controlplane.cli", "controlplane",
             "--state-dir", str(state_dir), "--port", str(port)],
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def create_databases(state_dir: Path) -> None:
    for kind in DatabaseKind:
        create_sqlite(state_dir / f"{kind}.db", kind)


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], state_dir: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        assert process.poll() is None, (state_dir / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_control_plane_takes_reports_streams_snapshots_and_ends_with_streams_open(
    tmp_path: Path,
) -> None:
    create_databases(tmp_path)
    with control_plane(tmp_path) as (url, process):
        wait_until_healthy(url, process, tmp_path)
        put = httpx.put(f"{url}/api/v1/gateways/gateway-0", content=report())
        assert put.status_code == 204
        (gateway,) = httpx.get(f"{url}/api/v1/gateways").json()["gateways"]
        assert gateway["name"] == "gateway-0"
        assert 0 <= gateway["age_seconds"] < 30
        wrong = httpx.put(f"{url}/api/v1/gateways/gateway-1", content=report())
        assert wrong.status_code == 422
        assert "about gateway gateway-0, the path gateway-1" in wrong.json()["detail"]
        broken = httpx.put(f"{url}/api/v1/gateways/gateway-0", content=b'{"name": 3}')
        assert broken.status_code == 422
        assert "$.name" in broken.json()["detail"] or "gateway_id" in broken.json()["detail"]
        false = report(snapshot_version=2**63 - 1)
        greedy = httpx.put(f"{url}/api/v1/gateways/gateway-0", content=false)
        assert greedy.status_code == 422
        assert "$.snapshot_version" in greedy.json()["detail"]
        large = httpx.put(f"{url}/api/v1/gateways/gateway-0", content=b" " * (MAX_REPORT_BYTES + 1))
        assert large.status_code == 413
        assert f"larger than {MAX_REPORT_BYTES} bytes" in large.json()["detail"]
        invalid = httpx.get(f"{url}/api/v1/replicas?limit=many")
        assert invalid.status_code == 422
        assert invalid.json()["problems"][0]["where"] == "query.limit"
        assert httpx.get(f"{url}/api/v1/deployments").json()["deployments"] == []
        metrics = httpx.get(f"{url}/metrics").text
        assert 'pilothouse_controlplane_gateway_report_age_seconds{gateway="gateway-0"}' in metrics
        assert "pilothouse_controlplane_snapshot_version 1.0" in metrics
        with httpx.stream("GET", f"{url}/api/v1/gateways/gateway-0/snapshots") as stream:
            lines = stream.iter_lines()
            first = [next(lines) for _ in range(6)]
            assert first[2:4] == ["event: snapshot", "id: 1"]
            assert decode_snapshot(first[4].removeprefix("data: ").encode()) == Snapshot(version=1)
            process.send_signal(signal.SIGTERM)
            assert list(lines) == []  # ended properly, not torn off
        assert process.wait(10) == 0


def test_a_second_control_plane_on_the_same_state_is_refused(tmp_path: Path) -> None:
    create_databases(tmp_path)
    with control_plane(tmp_path) as (url, process):
        wait_until_healthy(url, process, tmp_path)
        second = subprocess.run(
            [sys.executable, "-m", "controlplane.cli", "controlplane",
             "--state-dir", str(tmp_path), "--port", "0"],
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert f"another control plane (pid {process.pid}) has {tmp_path}" in second.stderr


def test_an_absent_database_stops_the_start_and_says_what_to_run(tmp_path: Path) -> None:
    with control_plane(tmp_path) as (_, process):
        assert process.wait(60) == 3
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert f"pilothouse db upgrade --state-dir {tmp_path}" in last


@pytest.fixture
def feed() -> SnapshotFeed:
    return SnapshotFeed()


def test_a_watcher_gets_the_current_snapshot_then_each_change_and_then_the_end(
    feed: SnapshotFeed,
) -> None:
    async def watch() -> list[bytes]:
        closing = asyncio.Event()
        stream = snapshot_events(feed, closing)
        seen = [await anext(stream)]
        feed.publish(Snapshot(version=7))
        seen.append(await anext(stream))
        feed.publish(Snapshot(version=7))  # the same: no event
        feed.publish(Snapshot(version=8))
        feed.publish(Snapshot(version=9))
        seen.append(await anext(stream))
        closing.set()
        return seen + [event async for event in stream]

    opening, seventh, ninth = asyncio.run(watch())
    assert opening.startswith(b":")
    assert seventh.startswith(b"event: snapshot\nid: 7\ndata: {")
    assert seventh.endswith(b"}\n\n")
    assert b"id: 9\n" in ninth


def test_who_asks_for_changes_is_sent_what_is_different_from_what_it_was_sent(
    feed: SnapshotFeed,
) -> None:
    keys = tuple(AccessKey(key_id=f"k{n}", secret_digest="d", role=Role.CLIENT) for n in range(3))

    async def watch() -> list[bytes]:
        stream = snapshot_events(feed, asyncio.Event(), sends_changes=True)
        seen = [await anext(stream)]
        for version in (7, 8, 9):
            if version != 8:  # which came while the watcher was slow
                feed.publish(Snapshot(version=version, keys=keys[: version - 6]))
                seen.append(await anext(stream))
            else:
                feed.publish(Snapshot(version=8, keys=keys[:1]))
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator has it
        return seen

    _, seventh, ninth = asyncio.run(watch())
    assert seventh.startswith(b"event: snapshot\nid: 7\n")
    assert ninth.startswith(b"event: change\nid: 9\n")
    change = decode_change(ninth.partition(b"data: ")[2])
    base = Snapshot(version=7, keys=keys[:1])
    assert apply_change(base, change) == Snapshot(version=9, keys=keys)


def test_a_quiet_stream_is_kept_alive(feed: SnapshotFeed) -> None:
    async def watch() -> list[bytes]:
        stream = snapshot_events(feed, asyncio.Event(), keep_alive_seconds=0.01)
        seen = [await anext(stream) for _ in range(3)]
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator has it
        return seen

    assert asyncio.run(watch()) == [b": watching\n\n", b": still here\n\n", b": still here\n\n"]

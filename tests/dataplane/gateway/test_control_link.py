"""Snapshots in, reports and records out, against a control plane that comes and goes."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dataplane.gateway import control_link
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.server import address_of, listen
from dataplane.policy import ClassPolicy, Snapshot, encode_snapshot
from dataplane.report import GatewayReport
from dataplane.snapshot_change import change_between, encode_change
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    MODEL,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine", "replica")]


@dataclass(eq=False)
class ControlPlane:
    """The three calls of a gateway, kept as they came."""

    address: str
    reports: list[GatewayReport] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    refusal: int | None = None
    """The status that reports are answered with instead of being taken."""
    num_streams: int = 0
    _snapshots: list[tuple[bytes, bytes]] = field(default_factory=list)
    _is_ending: bool = False

    def publish(self, document: bytes, kind: bytes = b"snapshot") -> None:
        self._snapshots.append((kind, document))

    def end_streams(self) -> None:
        self._is_ending = True

    async def stream(self, request: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            self.num_streams += 1
            whole = [n for n, (kind, _) in enumerate(self._snapshots) if kind == b"snapshot"]
            num_sent = max(whole, default=0)
            while not self._is_ending:
                for kind, document in self._snapshots[num_sent:]:
                    yield b"event: " + kind + b"\nid: 1\ndata: " + document + b"\n\n"
                    num_sent += 1
                yield b": still here\n\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def report(self, request: Request) -> Response:
        if self.refusal is not None:
            return JSONResponse({"detail": "no gateway is called so"}, self.refusal)
        self.reports.append(msgspec.json.decode(await request.body(), type=GatewayReport))
        return Response(status_code=204)

    async def store(self, request: Request) -> Response:
        batch = await request.json()
        self.records += [record["request_id"] for record in batch["records"]]
        return JSONResponse({"stored": len(batch["records"]), "duplicates": 0})


@contextlib.asynccontextmanager
async def control_plane(port: int = 0) -> AsyncIterator[ControlPlane]:
    listener = listen("127.0.0.1", port, 2**16)
    plane = ControlPlane(address_of(listener))
    app = Starlette(
        routes=[
            Route("/api/v1/gateways/gateway-t/snapshots", plane.stream),
            Route("/api/v1/gateways/gateway-t", plane.report, methods=["PUT"]),
            Route("/api/v1/records", plane.store, methods=["POST"]),
        ]
    )
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="off"))
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    try:
        yield plane
    finally:
        plane.end_streams()
        server.should_exit = True
        await serving


def serve_model(version: int) -> Snapshot:
    return snapshot(deployment("a"), version=version)


def with_unknown_engine(version: int) -> Snapshot:
    served = deployment("a")
    (endpoint,) = served.replicas
    misspelt = replace(served, replicas=(replace(endpoint, engine="scriptd"),))
    return snapshot(misspelt, version=version)


async def test_a_snapshot_is_enforced_reported_and_kept(tmp_path: Path) -> None:
    async with (
        control_plane() as plane,
        running_gateway(
            tmp_path, None, control_plane=plane.address, report_seconds=0.02
        ) as gateway,
    ):
        assert (await gateway.http.post(CHAT, json=say())).status_code == 503
        plane.publish(encode_snapshot(serve_model(7)))
        await until(lambda: any(report.snapshot_version == 7 for report in plane.reports))
        await until(lambda: all(r.is_connected for r in plane.reports[-1].replicas))
        assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).status_code == 200
        report = plane.reports[-1]
        assert (report.name, report.address) == ("gateway-t", gateway.url)
        report.counts.check_integrity()
        assert (tmp_path / "snapshot.json").read_bytes() == encode_snapshot(serve_model(7))


async def test_a_line_separator_inside_a_snapshot_ends_no_line(tmp_path: Path) -> None:
    odd = snapshot(deployment("a", name="one\u2028two\u2029three\u0085four"), version=7)
    document = encode_snapshot(odd)
    assert "\u2028".encode() in document
    async with control_plane() as plane:
        plane.publish(document)
        async with running_gateway(tmp_path, None, control_plane=plane.address) as gateway:
            await until(lambda: gateway.app.gateway.enforced.snapshot == odd)


def enforces(gateway: Gateway, snapshot: Snapshot) -> bool:
    return gateway.enforced.snapshot == snapshot


async def test_a_change_is_enforced_and_kept_whole_and_one_out_of_step_asks_for_all(
    tmp_path: Path,
) -> None:
    states = [
        snapshot(*(deployment("a", name=name) for name in names), version=version)
        for version, names in ((7, "ab"), (8, "abc"), (9, "ac"), (10, "a"))
    ]
    async with control_plane() as plane:
        plane.publish(encode_snapshot(states[0]))
        async with running_gateway(tmp_path, None, control_plane=plane.address) as gateway:
            enforced = gateway.app.gateway
            for before, after in itertools.pairwise(states[:3]):
                plane.publish(encode_change(change_between(before, after)), b"change")
                await until(partial(enforces, enforced, after))
            assert plane.num_streams == 1
            kept = tmp_path / "snapshot.json"
            await until(lambda: kept.read_bytes() == encode_snapshot(states[2]))

            plane.publish(encode_change(change_between(states[1], states[3])), b"change")
            plane.publish(encode_snapshot(states[3]))
            await until(lambda: enforced.enforced.snapshot == states[3])
            assert plane.num_streams == 2
            assert enforced.snapshot_error is None


def tells(plane: ControlPlane, words: str) -> bool:
    return bool(plane.reports) and words in (plane.reports[-1].snapshot_error or "")


async def test_a_disk_that_takes_no_snapshot_does_not_keep_the_next_ones_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(control_link, "replace_file", fail)
    async with control_plane() as plane:
        plane.publish(encode_snapshot(serve_model(version=7)))
        async with running_gateway(tmp_path, None, control_plane=plane.address) as gateway:
            enforced = gateway.app.gateway
            await until(lambda: enforced.enforced.snapshot.version == 7)
            plane.publish(encode_snapshot(serve_model(version=8)))
            await until(lambda: enforced.enforced.snapshot.version == 8)


async def test_a_refused_snapshot_changes_nothing_and_is_told(tmp_path: Path) -> None:
    bad_class = ClassPolicy(name="odd", match="tenat.tier == 1")
    refused = [
        (b'{"version": 8, "deployments": 3}', "deployments"),
        (
            encode_snapshot(snapshot(deployment("a", classes=[bad_class]), version=8)),
            "class odd",
        ),
        (
            encode_snapshot(with_unknown_engine(8)),
            "did you mean 'scripted'?",
        ),
    ]
    async with (
        control_plane() as plane,
        running_gateway(
            tmp_path, serve_model(7), control_plane=plane.address, report_seconds=0.02
        ) as gateway,
    ):
        for document, words in refused:
            plane.publish(document)
            await until(partial(tells, plane, words))
            assert plane.reports[-1].snapshot_version == 7
            assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).status_code == 200
        plane.publish(encode_snapshot(serve_model(9)))
        await until(lambda: plane.reports[-1].snapshot_version == 9)
        assert plane.reports[-1].snapshot_error is None
    assert (tmp_path / "snapshot.json").read_bytes() == encode_snapshot(serve_model(9))


async def test_a_report_that_is_taken_again_ends_the_pause_of_the_snapshot_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_link, "_FIRST_BACKOFF_SECONDS", 600.0)
    async with contextlib.AsyncExitStack() as stack:
        async with control_plane() as plane:
            port = int(plane.address.rpartition(":")[2])
            plane.publish(encode_snapshot(serve_model(7)))
            gateway = await stack.enter_async_context(
                running_gateway(tmp_path, None, control_plane=plane.address, report_seconds=0.02)
            )
            enforced = gateway.app.gateway
            await until(lambda: enforced.enforced.snapshot.version == 7)
        link = gateway.app._link
        assert link is not None
        await until(lambda: link._is_away)
        async with control_plane(port) as plane:
            plane.publish(encode_snapshot(serve_model(8)))
            await until(lambda: enforced.enforced.snapshot.version == 8)


async def test_refused_reports_are_counted_and_said_once(tmp_path: Path) -> None:
    async with (
        control_plane() as plane,
        running_gateway(
            tmp_path, None, control_plane=plane.address, report_seconds=0.01
        ) as gateway,
    ):
        with structlog.testing.capture_logs() as lines:
            plane.refusal = 422

            async def num_refused() -> int:
                text = (await gateway.http.get("/metrics")).text
                found = re.search(r"^pilothouse_gateway_reports_refused_total (\S+)$", text, re.M)
                assert found is not None
                return int(float(found[1]))

            for _ in range(1000):
                if await num_refused() >= 3:
                    break
                await asyncio.sleep(0.01)
            plane.refusal = None
            before = len(plane.reports)
            await until(lambda: len(plane.reports) > before)
            assert plane.reports[-1].num_reports_refused == await num_refused()
    refusals = [line for line in lines if line["event"] == "report refused"]
    assert [line["answer"] for line in refusals] == ['422: {"detail":"no gateway is called so"}']
    assert [line for line in lines if line["event"] == "reports are taken again"]


async def test_requests_are_served_and_recorded_while_the_control_plane_is_away(
    tmp_path: Path,
) -> None:
    async with control_plane() as plane:
        port = int(plane.address.rsplit(":", 1)[1])
        plane.publish(encode_snapshot(serve_model(7)))
    async with running_gateway(
        tmp_path, serve_model(7), control_plane=plane.address, report_seconds=0.02
    ) as gateway:
        answers = [await gateway.http.post(CHAT, json=say(max_tokens=1)) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        await until(lambda: gateway.app.report().num_records_spooled == 3)
        async with control_plane(port) as back:
            back.publish(encode_snapshot(serve_model(8)))
            await until(lambda: len(back.records) == 3, 10)
            await until(lambda: any(r.snapshot_version == 8 for r in back.reports), 10)
    assert sorted(back.records) == sorted(a.headers["x-request-id"] for a in answers)


async def test_a_removed_replica_finishes_what_it_has_and_gets_nothing_new(
    tmp_path: Path,
) -> None:
    old = add_replica("a", capabilities=BLIND)
    new = add_replica("b", capabilities=BLIND)
    async with running_gateway(tmp_path, snapshot(deployment("a"))) as gateway:
        old.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2)))
        await until(lambda: len(old.submitted) == 1)
        gateway.app.gateway.enforce(encode_snapshot(snapshot(deployment("b"), version=6)))
        assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).status_code == 200
        assert len(new.submitted) == 1
        assert [r.replica_id for r in gateway.app.report().replicas] == ["replica-b", "replica-a"]
        old.resume()
        assert (await running).status_code == 200
        await until(lambda: len(gateway.app.report().replicas) == 1)
        record = await gateway.record_of((await running).headers["x-request-id"])
        assert (record.snapshot_version, record.model) == (5, MODEL)
        await gateway.settle()

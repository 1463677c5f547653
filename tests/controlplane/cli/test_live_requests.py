"""Requests in flight on a real gateway, as the command line shows them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from dataplane.clock import wall_clock
from dataplane.report import GatewayReport
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.quiet_gateway import quiet_report
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def report(name: str, address: str) -> GatewayReport:
    return quiet_report(name, address=address, reported_at_unix_ns=wall_clock())


@contextlib.asynccontextmanager
async def one_in_flight(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """The control plane's URL, and the id of a request that a gateway is working on; a second
    gateway is known that does not answer."""
    replica = add_replica("a", capabilities=BLIND)
    served = snapshot(deployment("a"))
    with serve_control_plane(folder / "state") as (url, opened):
        async with running_gateway(folder / "gateway", served) as gateway:
            opened.observed.put_gateway(report("gateway-t", gateway.url))
            opened.observed.put_gateway(report("gateway-u", "http://127.0.0.1:1"))
            replica.hold()
            asking = asyncio.create_task(
                gateway.http.post(
                    CHAT, json=say(max_tokens=3), headers={"x-pilothouse-tenant": "acme"}
                )
            )
            await until(lambda: bool(replica.held))
            [request] = gateway.app.gateway.registry.live()
            yield url, request.request_id
            replica.resume()
            await asking


async def run(url: str, *arguments: str) -> Result:
    environment = {"PILOTHOUSE_URL": url, "COLUMNS": "120", "NO_COLOR": "1"}
    return await asyncio.to_thread(CliRunner().invoke, main, arguments, env=environment)


async def test_requests_in_flight_are_listed_and_silent_gateways_named(tmp_path: Path) -> None:
    async with one_in_flight(tmp_path) as (url, request_id):
        shown = await run(url, "requests", "--live")
        nobody = await run(url, "requests", "--live", "--tenant", "nobody")
        as_json = await run(url, "requests", "--live", "-o", "json")

    assert shown.exit_code == 0
    assert request_id[:10] in shown.stdout
    assert "acme" in shown.stdout
    assert "gateway gateway-u does not answer" in shown.stderr
    assert nobody.stdout == ""
    assert "no request is in flight" in nobody.stderr
    [found] = json.loads(as_json.stdout)["requests"]
    assert found["request_id"] == request_id


async def test_a_request_in_the_queue_says_its_place_everywhere(tmp_path: Path) -> None:
    replica = add_replica("a", capabilities=BLIND)
    served = snapshot(deployment("a", max_active=1))
    with serve_control_plane(tmp_path / "state") as (url, opened):
        async with running_gateway(tmp_path / "gateway", served) as gateway:
            opened.observed.put_gateway(report("gateway-t", gateway.url))
            replica.hold()
            asking = []
            for number in range(3):
                asking.append(asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1))))
                await until(lambda: bool(replica.held))
                await until(partial(_num_queued_is, gateway, number))
            last = gateway.app.gateway.registry.live()[-1].request_id
            listed = await run(url, "requests", "--live")
            as_json = await run(url, "requests", "--live", "-o", "json")
            traced = await run(url, "trace", last)
            async with httpx.AsyncClient() as http:
                page = (await http.get(f"{url}/requests/live")).text
            replica.resume()
            await asyncio.gather(*asking)

    found = json.loads(as_json.stdout)["requests"]
    assert [(each["queue_position"], each["waits_for"]) for each in found] == [
        (None, "the engine to schedule it"),
        (1, "a slot"),
        (2, "a slot"),
    ]
    ages = [each["queue_age_seconds"] for each in found]
    assert ages[0] is None
    assert ages[1] > ages[2] > 0
    assert "queued #1" in listed.stdout
    assert "a slot, for " in listed.stdout
    assert "queued #2" in listed.stdout
    assert "queue       1 before it, in it for " in traced.stdout
    assert page.count(">a slot, for ") == 2
    for place in ("1", "2", '<span class="mute">–</span>'):
        assert f'<td data-label="Place" class="n">{place}</td>' in page


def _num_queued_is(gateway: RunningGateway, number: int) -> bool:
    return gateway.app.report().num_queued == number


async def test_trace_shows_a_request_in_flight_as_far_as_it_has_come(tmp_path: Path) -> None:
    async with one_in_flight(tmp_path) as (url, request_id):
        shown = await run(url, "trace", request_id[:8])
        as_json = await run(url, "trace", request_id, "-o", "json")
        unknown = await run(url, "trace", "zzz")

    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith(f"request {request_id} is in flight")
    assert "waits for" in shown.stdout
    assert "replica     replica-a" in shown.stdout
    assert json.loads(as_json.stdout)["in_flight"]["request_id"] == request_id
    assert unknown.exit_code == 4
    assert "gateway gateway-u does not answer" in unknown.stderr
    assert "no request or trace 'zzz' is known" in unknown.stderr

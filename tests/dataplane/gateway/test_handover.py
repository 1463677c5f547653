"""A gateway restarted under load: nobody is refused, no stream is cut, no request is lost."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from dataplane.access import create_key
from dataplane.lifecycle import Delivery, Disposition
from tests.dataplane.gateway.gateway_processes import ROOT, Place, place_before
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    add_replica,
    deployment,
    keep_snapshot,
    running_gateway,
    say,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, ScriptedReplica
from tests.dataplane.gateway.test_gateway_process import spooled

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("scripted_engine"),
    pytest.mark.timeout(600),
]

NUM_STREAMS = 32
NUM_TOKENS = 400
NUM_RESTARTS = 5


@pytest.fixture
def replica() -> ScriptedReplica:
    return add_replica("a", capabilities=replace(BLIND, max_num_seqs=128))


async def stream(address: str, num_tokens: int, on_begin: asyncio.Semaphore) -> str:
    """The text of one streamed answer, which must end with the end mark."""
    words: list[str] = []
    is_done = False
    body = say(max_tokens=num_tokens, stream=True)
    async with (
        httpx.AsyncClient(timeout=180) as http,
        http.stream("POST", address + CHAT, json=body) as response,
    ):
        assert response.status_code == 200
        async for line in response.aiter_lines():
            data = line.removeprefix("data: ")
            if data == "[DONE]":
                is_done = True
            elif data:
                if not words:
                    on_begin.release()
                words.append(json.loads(data)["choices"][0]["delta"].get("content") or "")
    assert is_done
    return "".join(words)


@dataclass
class Callers:
    """Who calls again and again until told to stop, and how it went."""

    address: str
    num_answered: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    _stopping: bool = False

    async def call_anew(self) -> None:
        """Each request on a connection of its own."""
        while not self._stopping:
            async with httpx.AsyncClient(timeout=120) as http:
                await self._call(http, "anew")

    async def call_again(self) -> None:
        """All on one connection for as long as the gateway keeps it."""
        async with httpx.AsyncClient(timeout=120) as http:
            while not self._stopping:
                await self._call(http, "again")
                await asyncio.sleep(0.02)

    def stop(self) -> None:
        self._stopping = True

    async def _call(self, http: httpx.AsyncClient, kind: str) -> None:
        try:
            answer = await http.post(self.address + CHAT, json=say(max_tokens=2))
        except httpx.HTTPError as error:
            self.failures.append(f"{kind}: {error!r}")
            return
        if answer.status_code == 200:
            self.num_answered[kind] += 1
        else:
            self.failures.append(f"{kind}: {answer.status_code} {answer.text}")


async def test_five_restarts_under_load_refuse_cut_and_lose_nothing(
    place: Place, upstream: RunningGateway, replica: ScriptedReplica
) -> None:
    first = await place.serve()
    address = place.status.address
    replica.step_seconds = 0.2
    began = asyncio.Semaphore(0)
    streams = [asyncio.create_task(stream(address, NUM_TOKENS, began)) for _ in range(NUM_STREAMS)]
    for _ in streams:
        await asyncio.wait_for(began.acquire(), 120)
    callers = Callers(address)
    calls = [asyncio.create_task(callers.call_anew()) for _ in range(2)]
    calls.append(asyncio.create_task(callers.call_again()))
    for _ in range(NUM_RESTARTS):
        before = callers.num_answered.copy()
        last = await place.serve("--take-over")
        assert place.status.address == address
        await until(lambda: all(callers.num_answered[k] > n for k, n in before.items()), 20)  # noqa: B023
    assert first.returncode is None, "the first one must still have its streams"
    replica.step_seconds = 0.001
    texts = await asyncio.gather(*streams)
    callers.stop()
    await asyncio.gather(*calls)
    assert callers.failures == []
    assert set(texts) == {"".join(f"w{number} " for number in range(NUM_TOKENS))}
    last.send_signal(signal.SIGTERM)
    codes = [await asyncio.wait_for(process.wait(), 120) for process in place.processes]
    assert codes == [0] * (NUM_RESTARTS + 1)
    assert place.left_behind() == []
    await check_records(place, NUM_STREAMS + callers.num_answered.total())
    await upstream.settle()


async def check_records(place: Place, num_requests: int) -> None:
    """Every request has its one record, and each says that it was answered whole."""
    records = await asyncio.to_thread(spooled, place.state_dir)
    assert len(records) == len({record.request_id for record in records}) == num_requests
    assert {record.disposition for record in records} == {Disposition.LENGTH}
    assert {record.delivery for record in records} == {Delivery.COMPLETE}
    assert len({record.gateway_id for record in records}) == NUM_RESTARTS + 1


async def test_a_successor_that_dies_before_it_serves_costs_nothing(
    place: Place, upstream: RunningGateway
) -> None:
    first = await place.serve()
    address = place.status.address
    # What it would have to enforce is newer than what it is ever told.
    keep_snapshot(place.state_dir, snapshot(deployment("a"), version=1))
    second = await place.start("--take-over")
    await until_logged(place, "a successor asks for the port", 120)
    third = await place.start("--take-over")
    assert await asyncio.wait_for(third.wait(), 120) == 1, "one at a time takes over"
    second.kill()
    await second.wait()
    callers = Callers(address)
    calling = asyncio.create_task(callers.call_anew())
    await until(lambda: callers.num_answered["anew"] > 5, 90)
    callers.stop()
    await calling
    assert callers.failures == []
    assert place.pid == first.pid
    assert not (await place.health())["is_draining"]


async def test_what_a_killed_predecessor_had_is_recorded_as_lost_by_its_successor(
    place: Place, upstream: RunningGateway, replica: ScriptedReplica
) -> None:
    first = await place.serve()
    replica.hold()
    began = asyncio.Semaphore(0)
    cut = asyncio.create_task(stream(place.status.address, 10, began))
    await until(lambda: len(replica.submitted) == 1, 90)
    second = await place.serve("--take-over")
    assert first.returncode is None
    first.kill()
    with pytest.raises(httpx.HTTPError):
        await cut
    await first.wait()
    await until(lambda: only_of(place, second), 90)
    second.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(second.wait(), 120) == 0
    (record,) = await asyncio.to_thread(spooled, place.state_dir)
    assert record.disposition is Disposition.LOST
    assert place.left_behind() == []


async def test_slots_that_a_draining_predecessor_holds_are_not_given_twice(
    tmp_path: Path, upstream: RunningGateway, replica: ScriptedReplica
) -> None:
    async with place_before(tmp_path / "gateway", upstream.url, max_active=2) as place:
        await place.serve()
        address = place.status.address
        replica.hold()
        began = asyncio.Semaphore(0)
        streams = [asyncio.create_task(stream(address, 3, began)) for _ in range(2)]
        await until(lambda: len(replica.submitted) == 2, 90)
        await place.serve("--take-over")
        async with httpx.AsyncClient(base_url=address, timeout=120) as http:
            waiting = asyncio.create_task(http.post(CHAT, json=say(max_tokens=1)))
            await until_state(http, "queued")
            assert len(replica.submitted) == 2
            replica.resume()
            await asyncio.gather(*streams)
            assert (await waiting).status_code == 200
        assert len(replica.submitted) == 3


async def test_from_its_first_request_on_a_successor_knows_what_its_predecessor_holds(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    enforced = snapshot(deployment("a", max_active=2))
    replica.hold()
    async with running_gateway(tmp_path / "before", enforced) as before:
        held = asyncio.create_task(before.http.post(CHAT, json=say(n=2, max_tokens=3)))
        await until(lambda: len(replica.submitted) == 1)
        grant = before.app.grant()
        async with running_gateway(tmp_path / "after", enforced, grant) as after:
            waiting = asyncio.create_task(after.http.post(CHAT, json=say(max_tokens=1)))
            await until(lambda: after.app.report().num_queued == 1)
            assert len(replica.submitted) == 1
            replica.resume()
            assert (await held).status_code == 200
            after.app.gateway.fleet.set_held_elsewhere(before.app.gateway.fleet.held())
            assert (await waiting).status_code == 200


async def test_a_connection_that_was_promised_to_stay_is_served_once_more_and_then_closed(
    place: Place,
) -> None:
    await place.serve()
    async with httpx.AsyncClient(base_url=place.status.address, timeout=120) as http:
        first = (await http.get("/healthz")).json()
        await place.serve("--take-over")
        again = await http.get("/healthz")
        while not again.json()["is_draining"]:  # for a moment both serve
            again = await http.get("/healthz")
        assert again.json() == {**first, "is_draining": True}
        assert again.headers["connection"] == "close"
        after = (await http.get("/healthz")).json()
    assert after["gateway_id"] == place.status.gateway_id != first["gateway_id"]
    assert not after["is_draining"]


async def test_one_that_leaves_can_still_be_looked_at_by_an_address_of_its_own(
    place: Place, upstream: RunningGateway, replica: ScriptedReplica
) -> None:
    first = await place.serve()
    replica.hold()
    running = asyncio.create_task(stream(place.status.address, 3, asyncio.Semaphore(0)))
    await until(lambda: len(replica.submitted) == 1, 90)
    await place.serve("--take-over")
    address = await logged_address(place)
    async with httpx.AsyncClient(base_url=address, timeout=10) as http:
        live = (await http.get("/internal/requests")).json()
        assert (await http.get("/healthz")).json()["is_draining"]
        assert (await http.get("/metrics")).status_code == 200
        assert (await http.get("/v1/models")).status_code == 404
        refused = await http.post(CHAT, json=say())
        assert refused.status_code == 404
        assert "private address" in refused.json()["error"]["message"]
    assert len(live["requests"]) == 1
    assert live["gateway_id"] != place.status.gateway_id
    replica.resume()
    assert await running == "w0 w1 w2 "
    assert await asyncio.wait_for(first.wait(), 120) == 0


async def test_sighup_starts_a_successor_that_takes_over(place: Place) -> None:
    first = await place.serve()
    address = place.status.address
    first.send_signal(signal.SIGHUP)
    await until(lambda: place.pid != first.pid, 120)
    assert await asyncio.wait_for(first.wait(), 120) == 0
    assert place.status.address == address
    assert not (await place.health())["is_draining"]
    os.kill(place.status.pid, signal.SIGTERM)


async def reload(place: Place) -> tuple[int | None, str]:
    """Exit code and words of the command that a service manager reloads the gateway with."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dataplane.gateway.reload", "--state-dir", str(place.state_dir)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
    )
    told, _ = await asyncio.wait_for(process.communicate(), 180)
    return process.returncode, told.decode()


async def test_a_reload_is_done_when_the_new_one_serves_and_fails_when_it_cannot(
    place: Place, tmp_path: Path
) -> None:
    assert (await reload(place))[0] == 1, "nobody serves yet"
    key_file = tmp_path / "gateway.key"
    key_file.write_text(create_key().text)
    first = await place.serve("--key-file", str(key_file))
    key_file.rename(tmp_path / "away")
    code, told = await reload(place)
    assert code == 1
    assert f"ended before it served, and pid {first.pid} serves on" in told
    assert place.pid == first.pid
    assert not (await place.health())["is_draining"]
    (tmp_path / "away").rename(key_file)
    code, told = await reload(place)
    assert code == 0, told
    assert f"pid {place.pid} serves at {place.status.address}" in told
    assert place.pid != first.pid


async def test_nobody_to_take_over_from_is_no_error(place: Place) -> None:
    await place.serve("--take-over")
    assert not (await place.health())["is_draining"]


def only_of(place: Place, process: Process) -> bool:
    """Nobody but the one that serves has a journal."""
    names = {path.parent.name for path in (place.state_dir / "inflight").glob("*/journal")}
    return names == {place.status.gateway_id} and place.pid == process.pid


async def until_logged(place: Place, text: str, seconds: float) -> None:
    await until(lambda: text in place.log(), seconds)


async def logged_address(place: Place) -> str:
    """Where the one that leaves listens from now on."""
    event = "listening for who looks after it"
    await until_logged(place, event, 60)
    lines = [json.loads(line) for line in place.log().splitlines() if event in line]
    address: str = lines[-1]["address"]
    return address


async def until_state(http: httpx.AsyncClient, state: str) -> None:
    async with asyncio.timeout(60):
        while True:
            live = (await http.get("/internal/requests")).json()
            if [request["state"] for request in live["requests"]] == [state]:
                return
            await asyncio.sleep(0.02)

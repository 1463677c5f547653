"""A gateway before real replicas: where requests go, what is kept of why, and what it does about
a replica that stalls, dies or lies."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dataplane.decision import RoutingDecision
from dataplane.engine import EngineEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.prefix_report import PrefixReport
from dataplane.record import RequestRecord
from dataplane.routing.prompt_blocks import BLOCK_TOKENS, hash_blocks
from tests.dataplane.gateway.routed_deployment import LAST, describe_plugin, routed
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    MODEL,
    RunningGateway,
    add_replica,
    find_tokenizer,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, REPLICAS, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

IMPATIENT = {
    "ejection": {
        "stall_seconds": 0.2,
        "min_requests": 2,
        "min_latency_seconds": 0.1,
        "consecutive_failures": 2,
        "eject_seconds": 300,
    }
}


@pytest.fixture
def replicas() -> dict[str, ScriptedReplica]:
    REPLICAS.clear()
    return {address: add_replica(address, capabilities=BLIND) for address in "abc"}


async def ask(
    gateway: RunningGateway, headers: dict[str, str] | None = None, **fields: Any
) -> RequestRecord:
    response = await gateway.http.post(
        CHAT, json=say(**{"max_tokens": 2} | fields), headers=headers or {}
    )
    return await gateway.record_of(response.headers["x-request-id"])


def only(record: RequestRecord) -> RoutingDecision:
    [decision] = record.routing
    return decision


async def test_a_record_says_who_was_looked_at_on_what_and_why_one_was_chosen(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    async with serving(tmp_path, routed("a", "b")) as gateway:
        record = await ask(gateway)
    decision = only(record)
    assert (decision.attempt, decision.policy, decision.snapshot_version) == (0, "two_choices", 5)
    assert (decision.chosen,) == record.replica_ids
    assert decision.num_candidates == 2
    assert [each.replica_id for each in decision.candidates] == ["replica-a", "replica-b"]
    assert decision.reason == "of two drawn at random, 0 sequences, as many as replica-b"
    outstanding = decision.candidates[0].signals[0]
    assert (outstanding.name, outstanding.value, outstanding.age_seconds) == ("outstanding", 0, 0.0)


async def test_one_that_dies_is_left_out_of_the_second_choice_and_the_record_has_both(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    async with serving(tmp_path, routed("a", "b")) as gateway:
        replicas["a"].hold()
        call = asyncio.create_task(ask(gateway))
        await until(lambda: len(replicas["a"].submitted) == 1)
        replicas["a"].die()
        record = await call
    assert record.status_code == 200
    first, second = record.routing
    assert [first.attempt, second.attempt] == [0, 1]
    assert [first.chosen, second.chosen] == ["replica-a", "replica-b"]
    told = {each.replica_id: each.why_not for each in second.candidates}
    assert told == {"replica-b": None, "replica-a": "it failed this request, or is kept"}


async def test_one_that_keeps_failing_is_sent_nothing_though_it_is_the_quickest(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:

    replicas["a"].finish_instead = EngineEvent(
        kind=EventKind.FINISHED, disposition=Disposition.ERROR, reason="out of memory"
    )
    async with serving(tmp_path, routed("a", "b", settings=IMPATIENT)) as gateway:
        records = [await ask(gateway) for _ in range(6)]
        [status] = gateway.app.gateway.fleet.ejections("chat")
        metrics = (await gateway.http.get("/metrics")).text
        told = {each.replica_id: each.held_back for each in gateway.app.report().replicas}
    assert [record.replica_ids[0][-1] for record in records] == ["a", "a", "b", "b", "b", "b"]
    assert "pilothouse_gateway_held_back_replicas 1.0" in metrics
    assert told["replica-b"] is None
    assert told["replica-a"] in {
        f"ejected for {seconds} s more: 2 failures in a row" for seconds in (299, 300)
    }
    assert (status.replica_id, status.why) == ("replica-a", "2 failures in a row")
    last = only(records[-1])
    assert last.reason == "it was the only one"
    assert last.candidates[1].why_not == "ejected: 2 failures in a row"


async def test_an_error_that_the_caller_made_ejects_nobody(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:

    replicas["a"].finish_instead = EngineEvent(
        kind=EventKind.FINISHED, disposition=Disposition.ERROR, reason="bad", status_code=400
    )
    async with serving(tmp_path, routed("a", "b", settings=IMPATIENT)) as gateway:
        for _ in range(5):
            await ask(gateway)
        assert gateway.app.gateway.fleet.ejections("chat") == []


async def test_one_that_stalls_is_ejected_and_what_it_has_is_left_to_it(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    stalled = replicas["a"]
    async with serving(tmp_path, routed("a", "b", settings=IMPATIENT)) as gateway:
        stalled.hold()
        stuck = asyncio.create_task(ask(gateway))
        await until(lambda: len(stalled.submitted) == 1)
        for _ in range(3):
            assert (await ask(gateway)).replica_ids == ("replica-b",)
        await until(lambda: bool(gateway.app.gateway.fleet.ejections("chat")))
        [status] = gateway.app.gateway.fleet.ejections("chat")
        assert status.why.startswith("a request has waited for ")
        # It has one request, and the other one as many: nobody but the ejection keeps us from it.
        replicas["b"].hold()
        calls = [asyncio.create_task(ask(gateway)) for _ in range(3)]
        await until(lambda: len(replicas["b"].held) == 3)
        assert len(stalled.submitted) == 1
        replicas["b"].resume()
        await asyncio.gather(*calls)
        stalled.resume()
        assert (await stuck).status_code == 200


async def test_one_that_lies_about_its_load_is_held_to_the_gateways_own_counts(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    liar, honest = replicas["a"], replicas["b"]
    async with serving(tmp_path, routed("a", "b")) as gateway:
        for each in (liar, honest):
            each.hold()
        calls = []
        for number in range(5):
            calls.append(asyncio.create_task(ask(gateway)))
            await until(
                lambda number=number: len(liar.held) + len(honest.held) == number + 1  # type: ignore[misc]
            )
        assert (len(liar.held), len(honest.held)) == (3, 2)
        liar.told_running, honest.told_running = 0, 2
        queue = gateway.app.gateway.fleet.queue_of("chat")

        def is_caught() -> bool:
            candidate = queue.find_candidate("replica-a")
            assert candidate is not None
            return candidate.reported is not None and candidate.reported.why_not is not None

        await until(is_caught)
        last = asyncio.create_task(ask(gateway))
        await until(lambda: len(honest.held) == 3)
        for each in (liar, honest):
            each.resume()
        await asyncio.gather(*calls)
        decision = only(await last)
    assert decision.chosen == "replica-b"
    assert decision.degraded == (
        "replica-a: it reports 0 sequences where 3 were sent to it; the gateway's own counts stand",
    )
    [report] = [
        signal
        for each in decision.candidates
        for signal in each.signals
        if each.replica_id == "replica-a" and signal.name == "reported"
    ]
    assert (report.value, report.source, report.is_used) == (0, "replica-a", False)


async def test_a_session_stays_where_it_began_until_that_replica_is_gone(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    served = routed("a", "b", "c", affinity_header="x-session")
    async with serving(tmp_path, served) as gateway:
        homes = {}
        for number in range(12):
            name = f"s-{number}"
            twice = [await ask(gateway, {"X-Session": name}) for _ in range(2)]
            [homes[name]] = {record.replica_ids[0] for record in twice}
            assert only(twice[0]).policy == "session_affinity"
        assert set(homes.values()) == {"replica-a", "replica-b", "replica-c"}
        other = await ask(gateway, {"X-Session": "s-1", "x-pilothouse-tenant": "acme"})
        assert only(other).policy == "session_affinity"
        replicas["b"].die()
        await until(lambda: "replica-b" not in gateway.app.gateway.fleet.connected())
        for name, home in homes.items():
            record = await ask(gateway, {"X-Session": name})
            if home != "replica-b":
                assert record.replica_ids == (home,)


async def test_a_prefix_finds_the_replica_that_has_it_and_no_other_tenant_does(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    served = routed("a", "b", "c", policy="prefix", tokenizer=find_tokenizer())
    body = {"model": MODEL, "prompt": list(range(5, 305)), "max_tokens": 2}

    async def complete(tenant: str) -> RequestRecord:
        response = await gateway.http.post(
            COMPLETIONS, json=body, headers={"x-pilothouse-tenant": tenant}
        )
        return await gateway.record_of(response.headers["x-request-id"])

    async with serving(tmp_path, served) as gateway:
        first = await complete("acme")
        assert only(first).reason.startswith("has 0 of 300 prompt tokens")
        for _ in range(4):
            again = await complete("acme")
            assert again.replica_ids == first.replica_ids
            # The engine found nothing of it, and said so: what was thought is put right each time.
            cached = [s for s in only(again).candidates[0].signals if s.name == "cached_prefix"]
            assert [signal.value for signal in cached] == [288]
        stranger = only(await complete("open"))
        assert not [s for each in stranger.candidates for s in each.signals if "cached" in s.name]


async def test_what_an_engine_tells_of_its_cache_counts_though_nobody_here_sent_it_there(
    tmp_path: Path, replicas: dict[str, ScriptedReplica]
) -> None:
    token_ids = list(range(5, 305))
    replicas["b"].told_prefixes = PrefixReport(
        cursor="x:9",
        block_tokens=BLOCK_TOKENS,
        is_whole=True,
        stored=b"".join(hash_blocks(token_ids, "acme")),
    )
    served = routed("a", "b", "c", policy="prefix", tokenizer=find_tokenizer())

    async def complete(prompt: list[int]) -> RequestRecord:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 2}
        headers = {"x-pilothouse-tenant": "acme"}
        response = await gateway.http.post(COMPLETIONS, json=body, headers=headers)
        return await gateway.record_of(response.headers["x-request-id"])

    async with serving(tmp_path, served) as gateway:
        await complete([7, 8, 9])
        index = gateway.app.gateway.fleet.queue_of("chat").router.index
        await until(lambda: index.told_at("replica-b") is not None)
        decision = only(await complete(token_ids))
    assert decision.chosen == "replica-b"
    [cached] = [s for s in decision.candidates[0].signals if s.name == "cached_prefix"]
    assert (cached.value, cached.source) == (288, "replica-b")
    assert cached.age_seconds is not None


async def test_a_plugin_routes_by_its_own_rule(
    tmp_path: Path, replicas: dict[str, ScriptedReplica], monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_plugin(tmp_path / "installed")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    async with serving(tmp_path / "gateway", routed("a", "b", "c", policy=LAST)) as gateway:
        decision = only(await ask(gateway))
    assert (decision.policy, decision.chosen, decision.reason) == (LAST, "replica-c", "the last")

"""A gateway's client and a replica's server over a real socket."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from dataplane import names
from dataplane.engine import (
    EngineRequest,
    EngineUnavailableError,
    SamplingParams,
)
from dataplane.host.client import HostClient
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.routing.prompt_blocks import DIGEST_BYTES, hash_blocks
from dataplane.tokenizer import Tokenizer
from tests.dataplane.host.echo_engine import EchoCore
from tests.dataplane.host.served_engine import (
    collect,
    endpoint_at,
    find,
    run,
    serve,
    text_of,
    until,
)
from tests.dataplane.host.test_stepped_core import CountingCore, make_bounds

MakeRequest = Callable[..., EngineRequest]


def test_a_request_goes_from_scheduled_to_released(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            events = await collect(client, make_request(text="abc", max_output_tokens=3))
            assert [event.kind for event in events] == [
                EventKind.SCHEDULED,
                EventKind.PREFILL_CHUNK,
                EventKind.FIRST_TOKEN,
                EventKind.TOKENS,
                EventKind.TOKENS,
                EventKind.FINISHED,
                EventKind.RELEASED,
            ]
            assert text_of(events) == "abc"
            offsets = [event.offset for event in events if event.offset is not None]
            assert len(offsets) == len(events)
            assert offsets == sorted(offsets)
            assert offsets[0] >= 0
            end = find(events, EventKind.FINISHED)
            assert end.disposition is Disposition.LENGTH
            assert (end.num_prompt_tokens, end.num_output_tokens) == (3, 3)

    run(scenario())


def test_capabilities_come_with_the_hello(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        core = EchoCore(max_num_seqs=3)
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            assert client.capabilities == core.capabilities

    run(scenario())


def test_many_requests_share_one_connection(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=4), tokenizer) as served:
            client = await served.connect()
            requests = [
                make_request(f"r{index}", chr(65 + index) * 3, max_output_tokens=index + 1)
                for index in range(20)
            ]
            answers = await asyncio.gather(*(collect(client, request) for request in requests))
            assert [text_of(events) for events in answers] == [
                chr(65 + index) * (index + 1) for index in range(20)
            ]

    run(scenario())


def test_another_replica_on_a_reused_port_is_refused(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = HostClient(endpoint_at(served.address, replica_id="replica-2"))
            with pytest.raises(EngineUnavailableError, match="replica replica-1 answers there"):
                await client.connect()
            assert not client.is_connected

    run(scenario())


def test_a_process_with_another_fencing_token_is_refused(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer, fencing_token=7) as served:
            meant = replace(endpoint_at(served.address), fencing_token=9)
            with pytest.raises(EngineUnavailableError, match="fencing token is 7, and 9"):
                await HostClient(meant).connect()
            client = HostClient(replace(meant, fencing_token=7))
            await client.connect()
            await client.close()

    run(scenario())


def test_an_address_where_nobody_listens_is_unavailable(unused_address: str) -> None:
    async def scenario() -> None:
        with pytest.raises(EngineUnavailableError, match="connecting to"):
            await HostClient(endpoint_at(unused_address)).connect()

    run(scenario())


@pytest.fixture
def unused_address() -> str:
    async def find_port() -> str:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return f"127.0.0.1:{port}"

    return asyncio.run(find_port())


def test_stats_carry_their_age(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=5), tokenizer) as served:
            stats = await (await served.connect()).stats()
            assert (stats.max_num_seqs, stats.num_running) == (5, 0)
            assert 0 <= stats.age_seconds < 5
            assert stats.num_blocks is None

    run(scenario())


class _GatedCore(EchoCore):
    """Its first step runs only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_run = threading.Event()

    def run(self) -> list[CoreEvent]:
        if not self.may_run.wait(timeout=5):
            raise RuntimeError("nobody opened the gate")
        return super().run()


def test_scheduled_arrives_while_its_step_has_not_run(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        core = _GatedCore()
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            kinds = []
            async for event in client.submit(make_request()):
                kinds.append(event.kind)
                if event.kind is EventKind.SCHEDULED:
                    core.may_run.set()
            assert kinds[-1] is EventKind.RELEASED

    run(scenario())


def test_metrics_keep_prompt_tokens_decode_steps_and_slots_apart(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=7), tokenizer) as served:
            client = await served.connect()
            await collect(client, make_request(text="abcdef", max_output_tokens=4))
            await until(lambda: served.sample(names.REPLICA_UNRELEASED_REQUESTS) == 0)
            assert served.sample(names.REPLICA_MAX_NUM_SEQS) == 7
            assert served.sample(names.REPLICA_ACTIVE_SEQUENCES) == 0
            assert served.sample(names.REPLICA_INPUT_TOKENS_TOTAL) == 6
            assert served.sample(names.REPLICA_OUTPUT_TOKENS_TOTAL) == 4
            assert served.sample(names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL) == 6
            assert served.sample(names.REPLICA_SCHEDULED_DECODE_STEPS_TOTAL) == 3
            # This engine does not say how many blocks it has: absent, not zero.
            assert served.sample(names.REPLICA_KV_BLOCKS) is None

    run(scenario())


def test_a_replica_tells_what_it_can_find_again_and_then_what_changed(tokenizer: Tokenizer) -> None:
    bounds = replace(make_bounds(), max_model_len=150, num_blocks=90, max_num_batched_tokens=256)

    async def ask(client: HostClient, name: str, token_ids: tuple[int, ...]) -> None:
        sampling = SamplingParams(max_output_tokens=2, ignore_eos=True)
        request = EngineRequest(
            request_id=name,
            attempt=0,
            endpoint="/v1/completions",
            prompt_token_ids=token_ids,
            sampling=sampling,
            isolation_key="acme",
        )
        assert find(await collect(client, request), EventKind.FINISHED).disposition

    async def scenario() -> None:
        core = CountingCore(bounds)
        core.load()
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            one, two = (1,) * 70, (2,) * 120
            await ask(client, "one", one)
            first = await client.cached_prefixes(None)
            assert first is not None
            assert first.is_whole
            assert first.stored == b"".join(sorted(hash_blocks(one, "acme"), key=first.stored.find))
            assert len(first.stored) == 2 * DIGEST_BYTES
            await ask(client, "two", two)  # there is no room for both
            second = await client.cached_prefixes(first.cursor)
            assert second is not None
            assert not second.is_whole
            assert second.stored == b"".join(hash_blocks(two, "acme"))
            assert second.removed == hash_blocks(one, "acme")[1]

    run(scenario())


def test_an_engine_without_a_cache_tells_nothing_of_one(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            assert await (await served.connect()).cached_prefixes(None) is None

    run(scenario())

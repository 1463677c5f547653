"""The adapter against what vLLM 0.32 answered, byte by byte."""

import asyncio
from collections.abc import Iterator

import pytest

from dataplane.engine import EngineUnavailableError
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_vllm.client import create_client
from pilothouse_vllm.settings import VllmSettings
from tests.endpoint_transcripts.asking import (
    TRACEPARENT,
    a_chat,
    capabilities_of,
    count_of,
    events_of,
    stats_of,
    text_of,
)
from tests.endpoint_transcripts.exchange import read_transcript
from tests.endpoint_transcripts.replay import HANGS, Replay, replaying


@pytest.fixture
def server() -> Iterator[tuple[Replay, str]]:
    with replaying(read_transcript("vllm-0.32")) as served:
        yield served


def create(url: str) -> EndpointClient:
    return create_client("attached-1", url, VllmSettings())


def test_a_stream_becomes_an_answer_with_its_usage_and_what_was_reused(
    server: tuple[Replay, str],
) -> None:
    events = events_of(create, server[1], a_chat("What is the capital of France?"))
    assert text_of(events) == "The capital of France is Paris."
    last = events[-1]
    assert (last.disposition, last.finish_reason) == (Disposition.STOP, "stop")
    assert (last.num_prompt_tokens, last.num_output_tokens, last.num_cached_tokens) == (37, 8, 0)


def test_an_answer_that_was_cut_says_so(server: tuple[Replay, str]) -> None:
    assert events_of(create, server[1], a_chat("Count to a hundred."))[-1].disposition is (
        Disposition.LENGTH
    )


def test_two_answers_are_counted_together(server: tuple[Replay, str]) -> None:
    events = events_of(create, server[1], a_chat("Say yes or no.", num_sequences=2, n=2))
    finished = [event for event in events if event.kind is EventKind.FINISHED]
    assert {event.sequence for event in finished} == {0, 1}
    assert finished[-1].num_output_tokens == 6


def test_logprobs_come_token_by_token(server: tuple[Replay, str]) -> None:
    events = events_of(create, server[1], a_chat("Tell logprobs.", logprobs=True, top_logprobs=2))
    told = [entry for event in events for entry in event.logprobs]
    assert len(told) == 2
    assert all(entry.logprob <= 0 and entry.top for entry in told)


def test_version_and_capabilities_are_what_the_server_answers(server: tuple[Replay, str]) -> None:
    found = capabilities_of(create, server[1])
    assert (found.engine, found.version, found.max_model_len) == ("vllm", "0.32.0", 2048)
    assert {"tools", "ignore_eos", "top_k", "min_tokens", "n"} <= found.parameters
    assert not found.parameters & {"priority", "cache_salt", "request_id", "chat_template"}
    assert found.cached_tokens is Observability.OBSERVED
    assert found.prefill is Observability.INFERRED


def test_readiness_is_proven_by_a_token_and_not_by_health(server: tuple[Replay, str]) -> None:
    server[0].withheld.add("/v1/completions")
    with pytest.raises(EngineUnavailableError, match="POST /v1/completions"):
        capabilities_of(create, server[1])
    assert "/health" not in server[0].paths


def test_another_server_is_told_from_vllm(server: tuple[Replay, str]) -> None:
    server[0].withheld.add("/version")
    with pytest.raises(EngineUnavailableError, match="no vLLM server"):
        capabilities_of(create, server[1])


def test_trace_name_and_salt_of_the_tenant_go_with_the_request(server: tuple[Replay, str]) -> None:
    events_of(create, server[1], a_chat("What is the capital of France?"))
    assert server[0].headers[-1]["traceparent"] == TRACEPARENT
    assert server[0].headers[-1]["x-request-id"] == "r1"
    assert server[0].bodies[-1]["cache_salt"] == "tenant-a"


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ("word " * 5000, 400, "context_length_exceeded"),
        ("Another model.", 404, None),
        ("Too hot.", 400, None),
        ("More than may queue.", 503, None),
        ("Use a tool.", 400, None),
    ],
)
def test_a_refusal_keeps_its_status_and_gets_the_name_that_callers_know(
    server: tuple[Replay, str], asked: str, status: int, code: str | None
) -> None:
    last = events_of(create, server[1], a_chat(asked))[-1]
    assert last.disposition is Disposition.ERROR
    assert (last.status_code, last.error_code) == (status, code)
    assert last.reason is not None


def test_its_metrics_become_stats_with_blocks_and_steps(server: tuple[Replay, str]) -> None:
    stats = stats_of(create, server[1])
    assert (stats.num_running, stats.num_waiting, stats.num_preemptions) == (0, 0, 0)
    assert stats.block_size is not None
    assert stats.num_blocks == stats.num_free_blocks
    assert stats.num_referenced_blocks == 0
    assert stats.num_steps is not None
    assert stats.num_steps > 0
    assert stats.max_num_seqs is None  # it does not say


def test_without_metrics_nothing_is_told_and_the_server_is_there(
    server: tuple[Replay, str],
) -> None:
    server[0].withheld.add("/metrics")
    stats = stats_of(create, server[1])
    assert stats.num_running is None
    assert stats.num_blocks is None


def test_a_prompt_is_counted_by_its_own_tokenizer_and_template(server: tuple[Replay, str]) -> None:
    chat = {"messages": [{"role": "user", "content": "How long am I?"}], "temperature": 1}
    assert count_of(create, server[1], chat) == 35
    assert count_of(create, server[1], {"prompt": "How long am I?"}) == 5
    assert count_of(create, server[1], {"prompt": [1, 2]}) is None


def test_a_cancel_hangs_up_on_a_server_that_says_nothing_more(server: tuple[Replay, str]) -> None:
    async def scenario() -> Disposition | None:
        client = create(server[1])
        await client.connect()
        last = None
        async for event in client.submit(a_chat(HANGS)):
            last = event
            if event.kind is EventKind.FIRST_TOKEN:
                await client.cancel("r1", Disposition.CANCELLED)
        for _ in range(500):
            if server[0].num_hung_up:
                break
            await asyncio.sleep(0.01)
        await client.close()
        return last.disposition if last else None

    assert asyncio.run(scenario()) is Disposition.CANCELLED
    assert server[0].num_hung_up == 1


def test_the_next_request_goes_on_the_same_connection(server: tuple[Replay, str]) -> None:
    async def scenario() -> None:
        client = create(server[1])
        await client.connect()
        for _ in range(3):
            assert [event async for event in client.submit(a_chat("Count to a hundred."))]
        await client.close()

    asyncio.run(scenario())
    assert len(set(server[0].ports[-3:])) == 1

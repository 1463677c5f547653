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
    AttachedServer,
    a_chat,
    attaching,
    text_of,
)
from tests.endpoint_transcripts.replay import HANGS


@pytest.fixture
def server() -> Iterator[AttachedServer]:
    with attaching("vllm-0.32", create_client, VllmSettings()) as attached:
        yield attached


def test_a_stream_becomes_an_answer_with_its_usage_and_what_was_reused(
    server: AttachedServer,
) -> None:
    events = server.events(a_chat("What is the capital of France?"))
    assert text_of(events) == "The capital of France is Paris."
    last = events[-1]
    assert (last.disposition, last.finish_reason) == (Disposition.STOP, "stop")
    assert (last.num_prompt_tokens, last.num_output_tokens, last.num_cached_tokens) == (37, 8, 0)


def test_an_answer_that_was_cut_says_so(server: AttachedServer) -> None:
    assert server.events(a_chat("Count to a hundred."))[-1].disposition is Disposition.LENGTH


def test_two_answers_are_counted_together(server: AttachedServer) -> None:
    events = server.events(a_chat("Say yes or no.", num_sequences=2, n=2))
    finished = [event for event in events if event.kind is EventKind.FINISHED]
    assert {event.sequence for event in finished} == {0, 1}
    assert finished[-1].num_output_tokens == 6


def test_logprobs_come_token_by_token(server: AttachedServer) -> None:
    events = server.events(a_chat("Tell logprobs.", logprobs=True, top_logprobs=2))
    told = [entry for event in events for entry in event.logprobs]
    assert len(told) == 2
    assert all(entry.logprob <= 0 and entry.top for entry in told)


def test_version_and_capabilities_are_what_the_server_answers(server: AttachedServer) -> None:
    found = server.capabilities()
    assert (found.engine, found.version, found.max_model_len) == ("vllm", "0.32.0", 2048)
    assert {"tools", "ignore_eos", "top_k", "min_tokens", "n"} <= found.parameters
    assert not found.parameters & {"priority", "cache_salt", "request_id", "chat_template"}
    assert found.cached_tokens is Observability.OBSERVED
    assert found.prefill is Observability.INFERRED


def test_readiness_is_proven_by_a_token_and_not_by_health(server: AttachedServer) -> None:
    server.replay.withheld.add("/v1/completions")
    with pytest.raises(EngineUnavailableError, match="POST /v1/completions"):
        server.capabilities()
    assert "/health" not in server.replay.paths


def test_another_server_is_told_from_vllm(server: AttachedServer) -> None:
    server.replay.withheld.add("/version")
    with pytest.raises(EngineUnavailableError, match="no vLLM server"):
        server.capabilities()


def test_trace_name_and_salt_of_the_tenant_go_with_the_request(server: AttachedServer) -> None:
    server.events(a_chat("What is the capital of France?"))
    assert server.replay.headers[-1]["traceparent"] == TRACEPARENT
    assert server.replay.headers[-1]["x-request-id"] == "r1"
    assert server.replay.bodies[-1]["cache_salt"] == "tenant-a"


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
    server: AttachedServer, asked: str, status: int, code: str | None
) -> None:
    last = server.events(a_chat(asked))[-1]
    assert last.disposition is Disposition.ERROR
    assert (last.status_code, last.error_code) == (status, code)
    assert last.reason is not None


def test_its_metrics_become_stats_with_blocks_and_steps(server: AttachedServer) -> None:
    stats = server.stats()
    assert (stats.num_running, stats.num_waiting, stats.num_preemptions) == (0, 0, 0)
    assert stats.block_size is not None
    assert stats.num_blocks == stats.num_free_blocks
    assert stats.num_referenced_blocks == 0
    assert stats.num_steps is not None
    assert stats.num_steps > 0
    assert stats.max_num_seqs is None  # it does not say


def test_without_metrics_nothing_is_told_and_the_server_is_there(
    server: AttachedServer,
) -> None:
    server.replay.withheld.add("/metrics")
    stats = server.stats()
    assert stats.num_running is None
    assert stats.num_blocks is None


def test_a_prompt_is_counted_by_its_own_tokenizer_and_template(server: AttachedServer) -> None:
    chat = {"messages": [{"role": "user", "content": "How long am I?"}], "temperature": 1}
    assert server.count(chat) == 35
    assert server.count({"prompt": "How long am I?"}) == 5
    assert server.count({"prompt": [1, 2]}) is None


def test_a_cancel_hangs_up_on_a_server_that_says_nothing_more(server: AttachedServer) -> None:
    async def cancel(client: EndpointClient) -> Disposition | None:
        last = None
        async for event in client.submit(a_chat(HANGS)):
            last = event
            if event.kind is EventKind.FIRST_TOKEN:
                await client.cancel("r1", Disposition.CANCELLED)
        for _ in range(500):
            if server.replay.num_hung_up:
                break
            await asyncio.sleep(0.01)
        return last.disposition if last else None

    assert server.ask(cancel) is Disposition.CANCELLED
    assert server.replay.num_hung_up == 1


def test_the_next_request_goes_on_the_same_connection(server: AttachedServer) -> None:
    server.events(*[a_chat("Count to a hundred.")] * 3)
    assert len(set(server.replay.ports[-3:])) == 1

"""The adapter against what SGLang's sources say that it answers: no server of it ran here."""

from collections.abc import Iterator

import pytest

from dataplane.engine import EngineUnavailableError
from dataplane.lifecycle import Disposition, Observability
from pilothouse_sglang.client import create_client
from pilothouse_sglang.settings import SglangSettings
from tests.endpoint_transcripts.asking import (
    AttachedServer,
    a_chat,
    attaching,
    text_of,
)


@pytest.fixture
def server() -> Iterator[AttachedServer]:
    with attaching("sglang-0.5-written", create_client, SglangSettings()) as attached:
        yield attached


def test_a_stream_becomes_an_answer_with_its_usage_and_what_was_reused(
    server: AttachedServer,
) -> None:
    events = server.events(a_chat("What is the capital of France?"))
    assert text_of(events) == "The capital is Paris."
    last = events[-1]
    assert last.disposition is Disposition.STOP
    assert (last.num_prompt_tokens, last.num_output_tokens, last.num_cached_tokens) == (37, 5, 32)


def test_version_seats_and_what_it_takes_are_what_the_server_answers(
    server: AttachedServer,
) -> None:
    found = server.capabilities()
    assert (found.engine, found.version) == ("sglang", "0.5.6")
    assert (found.max_model_len, found.max_num_seqs) == (2048, 48)
    assert "ignore_eos" in found.parameters
    assert not found.parameters & {"priority", "rid", "bootstrap_host", "lora_path"}
    assert found.cached_tokens is Observability.OBSERVED


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ("Too long, told in the stream.", 400, "context_length_exceeded"),
        ("Too long, told by the status.", 400, "context_length_exceeded"),
        ("More than may queue.", 503, None),
        ("Aborted on the way.", 502, None),
        ("Aborted as a finish reason.", 502, None),
    ],
)
def test_what_it_aborts_is_an_error_with_the_status_that_it_tells_wherever_it_stands(
    server: AttachedServer, asked: str, status: int, code: str | None
) -> None:
    last = server.events(a_chat(asked))[-1]
    assert last.disposition is Disposition.ERROR
    assert (last.status_code, last.error_code) == (status, code)


def test_its_metrics_become_stats_and_ranks_that_repeat_each_other_count_once(
    server: AttachedServer,
) -> None:
    stats = server.stats()
    assert (stats.num_running, stats.num_waiting, stats.num_preemptions) == (3, 2, 7)
    assert (stats.block_size, stats.num_blocks, stats.num_free_blocks) == (16, 4096, 3840)
    assert stats.num_evictable_blocks == 128
    assert (stats.max_num_seqs, stats.num_steps) == (48, None)


def test_a_server_without_metrics_tells_its_seats_and_nothing_else(
    server: AttachedServer,
) -> None:
    server.replay.withheld.add("/metrics")
    stats = server.stats()
    assert (stats.num_running, stats.num_blocks, stats.max_num_seqs) == (None, None, 48)


def test_another_server_is_told_from_sglang(server: AttachedServer) -> None:
    server.replay.withheld |= {"/server_info"}
    with pytest.raises(EngineUnavailableError, match="get_server_info"):
        server.capabilities()


def test_a_prompt_is_counted_by_its_tokenizer_and_a_chat_is_not(server: AttachedServer) -> None:
    assert server.count({"prompt": "How long am I?"}) == 5
    chat = {"messages": [{"role": "user", "content": "How long am I?"}]}
    assert server.count(chat) is None

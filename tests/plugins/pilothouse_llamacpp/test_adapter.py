"""The adapter against what llama.cpp's server answered, byte by byte."""

from collections.abc import Iterator

import pytest

from dataplane.engine import EngineUnavailableError
from dataplane.lifecycle import Disposition, EventKind, Observability
from pilothouse_llamacpp.client import create_client
from pilothouse_llamacpp.dialect import LlamaCppDialect
from pilothouse_llamacpp.settings import LlamaCppSettings
from tests.dataplane.plain_clock import PlainClock
from tests.endpoint_transcripts.asking import AttachedServer, a_chat, attaching, text_of


@pytest.fixture
def server() -> Iterator[AttachedServer]:
    with attaching("llamacpp-0.5", create_client, LlamaCppSettings()) as attached:
        yield attached


def test_a_stream_becomes_an_answer_with_its_usage_and_what_was_reused(
    server: AttachedServer,
) -> None:
    events = server.events(a_chat("Count to a hundred."))
    assert text_of(events) == "100."
    last = events[-1]
    assert last.disposition is Disposition.LENGTH
    assert (last.num_prompt_tokens, last.num_output_tokens, last.num_cached_tokens) == (35, 4, 24)


def test_the_counts_of_several_answers_which_it_tells_one_by_one_add_up(
    server: AttachedServer,
) -> None:
    events = server.events(a_chat("Say yes or no.", num_sequences=2, n=2))
    finished = [event for event in events if event.kind is EventKind.FINISHED]
    assert [event.disposition for event in finished] == [Disposition.STOP, Disposition.LENGTH]
    assert (finished[-1].num_prompt_tokens, finished[-1].num_output_tokens) == (35, 5)


def test_build_slots_and_length_are_what_the_server_answers(server: AttachedServer) -> None:
    found = server.capabilities()
    assert (found.engine, found.version) == ("llamacpp", "b1-0c1e570")
    assert (found.max_model_len, found.max_num_seqs) == (2048, 4)
    assert found.cached_tokens is Observability.OBSERVED


def test_tools_are_not_taken_where_the_models_template_knows_none(
    server: AttachedServer,
) -> None:
    assert "tools" not in server.capabilities().parameters


def test_another_server_is_told_from_llamacpp(server: AttachedServer) -> None:
    server.replay.withheld.add("/props")
    with pytest.raises(EngineUnavailableError, match=r"no server of llama\.cpp"):
        server.capabilities()


def test_a_prompt_that_is_too_long_gets_the_name_that_callers_know(
    server: AttachedServer,
) -> None:
    last = server.events(a_chat("word " * 5000))[-1]
    assert (last.status_code, last.error_code) == (400, "context_length_exceeded")


def test_a_server_that_loads_is_busy_and_what_it_does_not_support_is_the_callers_mistake() -> None:
    dialect = LlamaCppDialect(LlamaCppSettings(), PlainClock())
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    assert dialect.read_refusal(503, loading).status_code == 503
    lacking = {"error": {"message": "no audio", "type": "not_supported_error", "code": 501}}
    assert dialect.read_refusal(501, lacking).status_code == 400


def test_its_metrics_become_stats_and_its_cache_is_missing_and_not_zero(
    server: AttachedServer,
) -> None:
    stats = server.stats()
    assert (stats.num_running, stats.num_waiting, stats.max_num_seqs) == (0, 0, 4)
    assert stats.num_steps is not None
    assert stats.num_steps > 0
    assert (stats.num_blocks, stats.num_free_blocks, stats.num_preemptions) == (None, None, None)


def test_without_metrics_its_slots_say_how_many_run_and_nobody_says_who_waits(
    server: AttachedServer,
) -> None:
    server.replay.withheld.add("/metrics")
    stats = server.stats()
    assert (stats.num_running, stats.max_num_seqs, stats.num_waiting) == (0, 4, None)


def test_a_prompt_is_counted_by_its_own_template_and_tokenizer(server: AttachedServer) -> None:
    assert server.count({"prompt": "How long am I?"}) == 5


def test_every_answer_comes_on_a_connection_of_its_own(server: AttachedServer) -> None:
    server.events(*[a_chat("Count to a hundred.")] * 2)
    assert len(set(server.replay.ports[-2:])) == 2


def test_a_server_that_routes_among_models_is_told_which_is_meant(
    server: AttachedServer,
) -> None:
    server.stats()
    asked = {path: query for path, query in server.replay.queries if query}
    assert asked == {"/props": "model=demo", "/metrics": "model=demo"}

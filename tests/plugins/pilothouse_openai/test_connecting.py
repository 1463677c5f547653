"""Endpoints that are not there, or tell of themselves what cannot be."""

import asyncio
from typing import Any

import pytest

from dataplane.engine import (
    EngineUnavailableError,
)
from dataplane.openai_endpoint.chunks import ChunkReader
from pilothouse_openai.client import create_client
from pilothouse_openai.settings import OpenAISettings, check_settings, parse_settings
from tests.plugins.pilothouse_openai.scripted_endpoint import (
    Endpoint,
    a_request,
    connected,
    events_of,
)


@pytest.mark.parametrize("scene", ["garbage", "not a choice", "another number"])
def test_a_malformed_stream_makes_the_replica_unavailable_for_that_request(
    endpoint: tuple[Endpoint, str], scene: str
) -> None:
    async def scenario() -> None:
        client = await connected(endpoint[1])
        try:
            with pytest.raises(EngineUnavailableError, match="attached-1"):
                await events_of(client, a_request(scene))
        finally:
            await client.close()

    asyncio.run(scenario())


def test_an_endpoint_that_is_not_there_is_unavailable_with_the_reason() -> None:
    async def scenario() -> None:
        client = create_client("attached-1", "http://127.0.0.1:9", OpenAISettings())
        try:
            with pytest.raises(EngineUnavailableError, match="GET /v1/models"):
                await client.connect()
        finally:
            await client.close()

    asyncio.run(scenario())


def test_a_model_the_endpoint_does_not_serve_is_named_with_those_it_does(
    endpoint: tuple[Endpoint, str],
) -> None:
    async def scenario() -> None:
        client = create_client("attached-1", endpoint[1], OpenAISettings(model="other"))
        try:
            with pytest.raises(EngineUnavailableError, match="upstream-model"):
                await client.connect()
        finally:
            await client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("listed", [["surprise"], [None], [7]])
def test_a_list_of_models_that_is_none_makes_the_endpoint_unavailable(
    endpoint: tuple[Endpoint, str], listed: list[Any]
) -> None:
    endpoint[0].listed = listed

    async def scenario() -> None:
        client = create_client("attached-1", endpoint[1], OpenAISettings())
        try:
            with pytest.raises(EngineUnavailableError, match="GET /v1/models"):
                await client.connect()
        finally:
            await client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("configured", "holds"), [(1024, 1024), (9000, 2048)])
def test_the_shorter_of_the_configured_and_the_endpoints_own_length_holds(
    endpoint: tuple[Endpoint, str], configured: int, holds: int
) -> None:
    async def scenario() -> int | None:
        client = await connected(endpoint[1], max_model_len=configured)
        await client.close()
        return client.capabilities.max_model_len

    assert asyncio.run(scenario()) == holds


@pytest.mark.parametrize("length", ["2048", -1, True, 0])
def test_a_length_that_is_no_count_is_none(endpoint: tuple[Endpoint, str], length: object) -> None:
    endpoint[0].listed = [{"id": "upstream-model", "max_model_len": length}]

    async def scenario() -> int | None:
        client = await connected(endpoint[1])
        await client.close()
        return client.capabilities.max_model_len

    assert asyncio.run(scenario()) is None


@pytest.mark.parametrize("count", ["eleven", None, -1, True, 1.5])
def test_a_usage_count_that_is_none_is_not_believed(count: object) -> None:
    reader = ChunkReader()
    assert not list(
        reader.read({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": 2}})
    )
    assert (reader.num_prompt_tokens, reader.num_output_tokens) == (None, 2)


def test_an_unknown_setting_is_answered_with_the_nearest_valid_one() -> None:
    ((key, what),) = check_settings({"max_num_seq": 3})
    assert key == "max_num_seq"
    assert "max_num_seqs" in what
    with pytest.raises(ValueError, match=r"settings\.max_num_seq"):
        parse_settings({"max_num_seq": 3})


def test_a_key_is_read_from_the_environment_and_its_absence_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = OpenAISettings(api_key_env="ENGINE_KEY_UPSTREAM")
    monkeypatch.delenv("ENGINE_KEY_UPSTREAM", raising=False)
    with pytest.raises(ValueError, match="ENGINE_KEY_UPSTREAM"):
        settings.read_api_key()
    monkeypatch.setenv("ENGINE_KEY_UPSTREAM", "secret")
    assert settings.read_api_key() == "secret"

"""A probe from outside: one token, and nothing else that an engine would have to do."""

import asyncio

import pytest

from dataplane.engine import EngineUnavailableError, ReplicaSpec
from dataplane.owned_server.process import OwnedServerProcess
from pilothouse_vllm.client import create_replica_client
from tests.endpoint_transcripts.exchange import read_transcript
from tests.endpoint_transcripts.replay import replaying


def process() -> OwnedServerProcess:
    return OwnedServerProcess("pilothouse_vllm.replica", create_replica_client)


def a_replica(**settings: str) -> ReplicaSpec:
    return ReplicaSpec(
        replica_id="r-1",
        deployment="chat",
        engine="vllm",
        model_name="demo",
        model_revision="demo@1",
        engine_config_revision="e@1",
        artifact="/models/demo",
        settings=settings,
    )


def test_a_probe_generates_a_token_and_asks_for_nothing_more() -> None:
    with replaying(read_transcript("vllm-0.32")) as (server, url):
        address = url.removeprefix("http://")
        assert asyncio.run(process().probe(a_replica(), address, 30)) > 0
        assert server.paths == ["/v1/models", "/v1/completions"]


def test_a_server_that_generates_nothing_is_not_ready_whatever_its_health_says() -> None:
    with replaying(read_transcript("vllm-0.32")) as (server, url):
        server.withheld.add("/v1/completions")
        with pytest.raises(EngineUnavailableError, match="r-1"):
            asyncio.run(process().probe(a_replica(), url.removeprefix("http://"), 30))


def test_a_probe_shows_the_key_that_the_replicas_settings_point_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINE_KEY_OWN", "of-this-server")
    spec = a_replica(api_key_env="ENGINE_KEY_OWN")
    with replaying(read_transcript("vllm-0.32")) as (server, url):
        assert asyncio.run(process().probe(spec, url.removeprefix("http://"), 30)) > 0
        assert server.headers[0]["authorization"] == "Bearer of-this-server"

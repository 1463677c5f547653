"""A probe from outside: one token, and nothing else that an engine would have to do."""

import asyncio

import pytest

from dataplane.engine import EngineUnavailableError
from dataplane.owned_server.process import OwnedServerProcess
from pilothouse_vllm.client import create_client
from pilothouse_vllm.settings import VllmSettings
from tests.endpoint_transcripts.exchange import read_transcript
from tests.endpoint_transcripts.replay import replaying


def process() -> OwnedServerProcess:
    return OwnedServerProcess(
        "pilothouse_vllm.replica",
        lambda replica_id, address: create_client(replica_id, address, VllmSettings()),
    )


def test_a_probe_generates_a_token_and_asks_for_nothing_more() -> None:
    with replaying(read_transcript("vllm-0.32")) as (server, url):
        address = url.removeprefix("http://")
        assert asyncio.run(process().probe("r-1", address, 30)) > 0
        assert server.paths == ["/v1/models", "/v1/completions"]


def test_a_server_that_generates_nothing_is_not_ready_whatever_its_health_says() -> None:
    with replaying(read_transcript("vllm-0.32")) as (server, url):
        server.withheld.add("/v1/completions")
        with pytest.raises(EngineUnavailableError, match="r-1"):
            asyncio.run(process().probe("r-1", url.removeprefix("http://"), 30))

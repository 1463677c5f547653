"""The client of one vLLM server."""

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import ReplicaSpec
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_vllm.dialect import VllmDialect
from pilothouse_vllm.settings import VllmSettings, parse_settings


def create_client(
    replica_id: str,
    address: str,
    settings: VllmSettings,
    clock: MonotonicClock = monotonic_clock,
) -> EndpointClient:
    """Not yet connected. Raises ValueError when its key cannot be had."""
    dialect = VllmDialect(settings, clock)
    return EndpointClient(replica_id, address, settings, dialect, settings.proof_seconds)


def create_replica_client(spec: ReplicaSpec, address: str) -> EndpointClient:
    """Of a replica of ours at `address`. Raises ValueError as `create_client` does, and for
    settings that cannot be used."""
    return create_client(spec.replica_id, address, parse_settings(spec.settings))

"""The client of one llama.cpp server."""

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import ReplicaSpec
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_llamacpp.dialect import LlamaCppDialect
from pilothouse_llamacpp.settings import LlamaCppSettings, parse_settings


def create_client(
    replica_id: str,
    address: str,
    settings: LlamaCppSettings,
    clock: MonotonicClock = monotonic_clock,
) -> EndpointClient:
    """Not yet connected. Raises ValueError when its key cannot be had."""
    dialect = LlamaCppDialect(settings, clock)
    return EndpointClient(replica_id, address, settings, dialect, settings.proof_seconds)


def create_replica_client(spec: ReplicaSpec, address: str) -> EndpointClient:
    """Of a replica of ours at `address`. Raises ValueError as `create_client` does, and for
    settings that cannot be used."""
    return create_client(spec.replica_id, address, parse_settings(spec.settings))

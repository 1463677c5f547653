"""The client of one llama.cpp server."""

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_llamacpp.dialect import LlamaCppDialect
from pilothouse_llamacpp.settings import LlamaCppSettings


def create_client(
    replica_id: str,
    address: str,
    settings: LlamaCppSettings,
    clock: MonotonicClock = monotonic_clock,
) -> EndpointClient:
    """Not yet connected. Raises ValueError when its key cannot be had."""
    dialect = LlamaCppDialect(settings, clock)
    return EndpointClient(replica_id, address, settings, dialect, settings.proof_seconds)

"""The client of one vLLM server."""

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_vllm.dialect import VllmDialect
from pilothouse_vllm.settings import VllmSettings


def create_client(
    replica_id: str,
    address: str,
    settings: VllmSettings,
    clock: MonotonicClock = monotonic_clock,
) -> EndpointClient:
    """Not yet connected. Raises ValueError when its key cannot be had."""
    dialect = VllmDialect(settings, clock)
    return EndpointClient(replica_id, address, settings, dialect, settings.proof_seconds)

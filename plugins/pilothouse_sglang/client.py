"""The client of one SGLang server."""

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_sglang.dialect import SglangDialect
from pilothouse_sglang.settings import SglangSettings


def create_client(
    replica_id: str,
    address: str,
    settings: SglangSettings,
    clock: MonotonicClock = monotonic_clock,
) -> EndpointClient:
    """Not yet connected. Raises ValueError when its key cannot be had."""
    dialect = SglangDialect(settings, clock)
    return EndpointClient(replica_id, address, settings, dialect, settings.proof_seconds)

"""Attach any OpenAI-compatible endpoint: the gateway's half of the engine contract, nothing more.

Such an endpoint shows text chunks and, at the end, a usage count. What it cannot show is
marked: prefill and decode times are inferred from chunks, cleanup is unobservable.
"""

from dataplane.engine import EngineClient
from dataplane.hooks import hookimpl
from dataplane.policy import ReplicaEndpoint
from pilothouse_openai.settings import ENGINE, parse_settings


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """The client of an attached endpoint, not yet connected."""
    if endpoint.engine != ENGINE:
        return None
    from pilothouse_openai.client import create_client

    return create_client(endpoint.replica_id, endpoint.address, parse_settings(endpoint.settings))

"""llama.cpp's own server (`llama-server`): attach one that runs, or launch one as a replica.

Seen of it are text chunks, usage and timings at the end (reused prompt tokens among them), its
slots and the few gauges of its metrics; prefill and decode times are inferred from chunks.
"""

from dataplane.engine import EngineClient
from dataplane.hooks import hookimpl
from dataplane.policy import ReplicaEndpoint
from pilothouse_llamacpp.settings import ENGINE, parse_settings


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """The client of a llama.cpp server, not yet connected."""
    if endpoint.engine != ENGINE:
        return None
    from pilothouse_llamacpp.client import create_client

    return create_client(endpoint.replica_id, endpoint.address, parse_settings(endpoint.settings))

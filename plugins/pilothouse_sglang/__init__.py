"""SGLang: attach a server that runs, or launch one as a replica.

Seen of it are text chunks, usage at the end and, with --enable-metrics, its gauges; prefill and
decode times are inferred from chunks. It was tried against transcripts written from its public
sources, not against a server.
"""

from dataplane.engine import EngineClient
from dataplane.hooks import hookimpl
from dataplane.policy import ReplicaEndpoint
from pilothouse_sglang.settings import ENGINE, parse_settings


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """The client of an SGLang server, not yet connected."""
    if endpoint.engine != ENGINE:
        return None
    from pilothouse_sglang.client import create_client

    return create_client(endpoint.replica_id, endpoint.address, parse_settings(endpoint.settings))

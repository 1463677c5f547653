"""vLLM: attach a server that runs, or launch one as a replica.

Seen of it are text chunks, usage at the end and the gauges of its metrics; prefill and decode
times are inferred from chunks. With `--otlp-traces-endpoint` at the control plane its own spans
are joined to the requests.
"""

from dataplane.engine import EngineClient
from dataplane.hooks import hookimpl
from dataplane.policy import ReplicaEndpoint
from pilothouse_vllm.settings import ENGINE, parse_settings


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """The client of a vLLM server, not yet connected."""
    if endpoint.engine != ENGINE:
        return None
    from pilothouse_vllm.client import create_client

    return create_client(endpoint.replica_id, endpoint.address, parse_settings(endpoint.settings))

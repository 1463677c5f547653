"""The gateway's half: a replica of the simulator is reached through its host."""

from dataplane.engine import EngineClient
from dataplane.hooks import hookimpl
from dataplane.policy import ReplicaEndpoint
from pilothouse_simulator.settings import ENGINE


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """The client of a hosted replica, not yet connected."""
    if endpoint.engine != ENGINE:
        return None
    from dataplane.host.client import HostClient

    return HostClient(endpoint)

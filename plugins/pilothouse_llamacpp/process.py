"""The control plane's half: how a server is started and proven, and what its settings may say."""

from collections.abc import Mapping
from typing import Any

from controlplane.hooks import hookimpl
from dataplane.engine import EngineProcess
from pilothouse_llamacpp.settings import ENGINE, LlamaCppSettings, check_settings


@hookimpl
def pilothouse_create_engine_process(engine: str) -> EngineProcess | None:
    """A server is the child of a replica of ours; one that runs already is attached."""
    if engine != ENGINE:
        return None
    from dataplane.owned_server.process import OwnedServerProcess
    from pilothouse_llamacpp.client import create_client

    return OwnedServerProcess(
        "pilothouse_llamacpp.replica",
        lambda replica_id, address: create_client(replica_id, address, LlamaCppSettings()),
    )


@hookimpl
def pilothouse_check_engine_settings(
    engine: str, settings: Mapping[str, Any]
) -> list[tuple[str, str]] | None:
    """Problems in an EngineConfig's settings for this engine."""
    return check_settings(settings) if engine == ENGINE else None

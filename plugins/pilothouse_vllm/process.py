"""The control plane's half: how a server is started and proven, and what its settings may say."""

from collections.abc import Mapping
from typing import Any

from controlplane.hooks import hookimpl
from dataplane.engine import EngineProcess
from dataplane.owned_server.terms import check_launch_here
from pilothouse_vllm.settings import ENGINE, check_settings, parse_settings
from pilothouse_vllm.terms import TERMS


@hookimpl
def pilothouse_create_engine_process(engine: str) -> EngineProcess | None:
    """A server is the child of a replica of ours; one that runs already is attached."""
    if engine != ENGINE:
        return None
    from dataplane.owned_server.process import OwnedServerProcess
    from pilothouse_vllm.client import create_replica_client

    return OwnedServerProcess("pilothouse_vllm.replica", create_replica_client)


@hookimpl
def pilothouse_check_engine_settings(
    engine: str, settings: Mapping[str, Any]
) -> list[tuple[str, str]] | None:
    """Problems in an EngineConfig's settings for this engine."""
    if engine != ENGINE:
        return None
    return check_settings(settings) or check_launch_here(TERMS, parse_settings(settings))

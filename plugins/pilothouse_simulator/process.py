"""The control plane's half: how a replica is started, and what its settings may say."""

from collections.abc import Mapping
from typing import Any

from controlplane.hooks import hookimpl
from dataplane.engine import EngineProcess
from pilothouse_simulator.settings import ENGINE, check_settings


@hookimpl
def pilothouse_create_engine_process(engine: str) -> EngineProcess | None:
    """Replicas of this engine run under dataplane.host."""
    if engine != ENGINE:
        return None
    from dataplane.host.process import HostProcess

    return HostProcess(ENGINE)


@hookimpl
def pilothouse_check_engine_settings(
    engine: str, settings: Mapping[str, Any]
) -> list[tuple[str, str]] | None:
    """Problems in an EngineConfig's settings for this engine."""
    return check_settings(settings) if engine == ENGINE else None

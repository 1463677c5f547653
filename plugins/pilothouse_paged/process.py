"""The control plane's half: how a replica is started, and what its settings may say.

Imports no torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.hooks import hookimpl
from dataplane.engine import EngineProcess
from pilothouse_paged.settings import ENGINE, check_settings


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


@hookimpl
def pilothouse_check_model_folder(folder: Path) -> list[str]:
    """The same checks that a replica makes before it reads weights."""
    from pilothouse_paged.folder_tensors import check_folder

    try:
        check_folder(folder)
    except (OSError, ValueError) as error:
        return [str(error)]
    return []

"""The control plane's half: what the settings may say."""

from collections.abc import Mapping
from typing import Any

from controlplane.hooks import hookimpl
from pilothouse_sglang.settings import ENGINE, check_settings


@hookimpl
def pilothouse_check_engine_settings(
    engine: str, settings: Mapping[str, Any]
) -> list[tuple[str, str]] | None:
    """Problems in an EngineConfig's settings for this engine."""
    return check_settings(settings) if engine == ENGINE else None

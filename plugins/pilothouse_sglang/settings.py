"""The settings of an SGLang server, attached or launched, as an EngineConfig document gives
them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from dataplane import engine_settings
from dataplane.openai_endpoint.settings import EngineEndpointSettings

ENGINE = "sglang"


class SglangSettings(EngineEndpointSettings):
    """What the adapter, and a server that is launched, may be told."""

    server_executable: str | None = Field(default=None, min_length=1)
    """The Python that has SGLang, by a name or path that ENGINE_PROGRAMS grants; None: python3."""
    isolate_prefixes: bool = True
    """Prompts of different tenants share no prefix cache, where the server takes `cache_salt`."""
    mem_fraction_static: float | None = Field(default=None, gt=0, le=1)
    """Of a launched server: the part of memory for weights and KV cache; None: its own choice."""
    dtype: str | None = Field(default=None, pattern=r"^[a-z0-9_]+$")
    """Of a launched server's weights; None: its own choice."""


def parse_settings(settings: Mapping[str, Any]) -> SglangSettings:
    """Raises ValueError naming every key that is wrong."""
    return engine_settings.parse_settings(SglangSettings, settings)


def check_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (key, what is wrong and the remedy); the key is "" for several together."""
    return engine_settings.check_settings(SglangSettings, settings)

"""The settings of a llama.cpp server, attached or launched, as an EngineConfig document gives
them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from dataplane import engine_settings
from dataplane.openai_endpoint.settings import EngineEndpointSettings

ENGINE = "llamacpp"


class LlamaCppSettings(EngineEndpointSettings):
    """What the adapter, and a server that is launched, may be told.

    A launched server divides its context among `max_num_seqs` slots of `max_model_len` tokens.
    """

    num_threads: int | None = Field(default=None, ge=1, le=1024)
    """Of a launched server; None: its own choice."""
    num_gpu_layers: int | None = Field(default=None, ge=0, le=10_000)
    """Layers that a launched server keeps on the GPU; None: its own choice."""


def parse_settings(settings: Mapping[str, Any]) -> LlamaCppSettings:
    """Raises ValueError naming every key that is wrong."""
    return engine_settings.parse_settings(LlamaCppSettings, settings)


def check_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (key, what is wrong and the remedy); the key is "" for several together."""
    return engine_settings.check_settings(LlamaCppSettings, settings)

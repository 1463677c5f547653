"""The settings of any OpenAI-compatible endpoint, as an EngineConfig document gives them."""

from collections.abc import Mapping
from typing import Any

from dataplane import engine_settings
from dataplane.openai_endpoint.settings import EndpointSettings

ENGINE = "openai"


class OpenAISettings(EndpointSettings):
    """How to talk to an endpoint of which nothing more is known."""

    ignore_eos: bool = False
    """The endpoint understands the `ignore_eos` extension (vLLM and SGLang do)."""
    prove_ready: bool = False
    """Whether a token is generated before the endpoint is sent requests, whenever a gateway
    connects to it. Where tokens are paid for, that is yours to decide; without it an endpoint that
    lists its models counts as ready."""

    @property
    def granted_parameters(self) -> frozenset[str]:
        """The extension that the settings name."""
        return frozenset({"ignore_eos"} if self.ignore_eos else ())


def parse_settings(settings: Mapping[str, Any]) -> OpenAISettings:
    """Raises ValueError naming every key that is wrong."""
    return engine_settings.parse_settings(OpenAISettings, settings)


def check_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (key, what is wrong and the remedy); the key is "" for several together."""
    return engine_settings.check_settings(OpenAISettings, settings)

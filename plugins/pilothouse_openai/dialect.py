"""An endpoint of which nothing more is known: it has no gauges and no tokenizer to ask."""

from collections.abc import Mapping
from typing import Any

from dataplane.engine import EngineRequest, EngineStats
from dataplane.openai_endpoint.dialect import Learned, count_in
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.parameters import USUAL
from dataplane.openai_endpoint.refusal import Refusal, read_plain_refusal
from pilothouse_openai.settings import ENGINE, OpenAISettings

_MODELS_SECONDS = 10.0


class OpenAIDialect:
    """What every such endpoint has in common."""

    engine = ENGINE
    keeps_connections = True

    def __init__(self, settings: OpenAISettings) -> None:
        self._settings = settings

    async def learn(self, http: EndpointHttp, model: Mapping[str, Any]) -> Learned:
        """Some servers tell a length beside the model's name."""
        return Learned(
            version=str(model.get("owned_by", "unknown")),
            max_model_len=count_in(model.get("max_model_len")),
            parameters=USUAL,
        )

    async def stats(self, http: EndpointHttp) -> EngineStats:
        """Nothing but that it answers."""
        response = await http.get("/v1/models", _MODELS_SECONDS)
        if response.is_error:
            raise http.unavailable(f"GET /v1/models: it answered {response.status_code}")
        return EngineStats(age_seconds=0.0, max_num_seqs=self._settings.max_num_seqs)

    def read_refusal(self, status: int, body: object) -> Refusal:
        """As any of them says it."""
        return read_plain_refusal(status, body)

    def more_of(self, request: EngineRequest, taken: frozenset[str]) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    async def count_prompt(
        self, http: EndpointHttp, model: str, body: Mapping[str, Any]
    ) -> int | None:
        """It offers no tokenizer."""
        return None

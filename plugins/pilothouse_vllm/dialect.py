"""vLLM's ways behind OpenAI's API: its version, its tokenizer, its gauges."""

from collections.abc import Mapping
from typing import Any

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineRequest, EngineStats
from dataplane.engine_metrics.tables.vllm import VLLM
from dataplane.openai_endpoint.dialect import Learned, count_in
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.parameters import PASSED_ON, fields_in_openapi
from dataplane.openai_endpoint.refusal import Refusal
from dataplane.openai_endpoint.scraping import ScrapedStats
from pilothouse_vllm.gauges import SIGNALS, read_stats
from pilothouse_vllm.refusal import read_refusal
from pilothouse_vllm.settings import ENGINE, VllmSettings

_SECONDS = 10.0
_SALT = "cache_salt"
_TOKENIZED = ("messages", "prompt", "tools", "chat_template_kwargs", "add_generation_prompt")


class VllmDialect:
    """One vLLM server."""

    engine = ENGINE
    keeps_connections = True

    def __init__(self, settings: VllmSettings, clock: MonotonicClock) -> None:
        self._settings = settings
        self._takes_salt = False
        self._gauges = ScrapedStats(VLLM, SIGNALS, read_stats, settings.metrics_seconds, clock)

    async def learn(self, http: EndpointHttp, model: Mapping[str, Any]) -> Learned:
        """Its version from /version, its length from its list of models, and what it takes from
        its OpenAPI document, where it serves one."""
        said = await http.find_json("/version", _SECONDS)
        version = said.get("version") if isinstance(said, Mapping) else None
        if not isinstance(version, str):
            raise http.unavailable(
                "GET /version tells no version, so it is no vLLM server: attach it as `openai`, or "
                "correct the Model's url"
            )
        fields = fields_in_openapi(await http.find_json("/openapi.json", _SECONDS))
        self._takes_salt = _SALT in fields
        return Learned(
            version=version,
            max_model_len=count_in(model.get("max_model_len")),
            parameters=(fields & PASSED_ON) or None,
        )

    async def stats(self, http: EndpointHttp) -> EngineStats:
        """Of its metrics; what they do not tell is missing."""
        found = await self._gauges.stats(http)
        return found or EngineStats(age_seconds=0.0)

    def read_refusal(self, status: int, body: object) -> Refusal:
        """In vLLM's words."""
        return read_refusal(status, body)

    def more_of(self, request: EngineRequest, taken: frozenset[str]) -> Mapping[str, Any]:
        """A salt for the prefix cache, so that tenants cannot find each other's prompts in it."""
        is_salted = self._takes_salt and self._settings.isolate_prefixes and request.isolation_key
        return {_SALT: request.isolation_key} if is_salted else {}

    async def count_prompt(
        self, http: EndpointHttp, model: str, body: Mapping[str, Any]
    ) -> int | None:
        """By POST /tokenize, which applies the chat template as well."""
        asked = {key: body[key] for key in _TOKENIZED if key in body}
        if not isinstance(asked.get("prompt", ""), str):
            return None
        answer = await http.post_json("/tokenize", {"model": model, **asked}, _SECONDS)
        count = answer.get("count") if isinstance(answer, Mapping) else None
        return count if isinstance(count, int) else None

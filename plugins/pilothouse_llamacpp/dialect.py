"""llama.cpp's server behind OpenAI's API: its build, its slots, its template and tokenizer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineRequest, EngineStats
from dataplane.engine_metrics.tables.llamacpp import LLAMACPP
from dataplane.openai_endpoint.dialect import Learned, count_in
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.parameters import USUAL
from dataplane.openai_endpoint.refusal import (
    CONTEXT_LENGTH_EXCEEDED,
    Refusal,
    error_of,
    read_plain_refusal,
)
from dataplane.openai_endpoint.scraping import METRICS_PATH, ScrapedStats
from pilothouse_llamacpp.gauges import SIGNALS, read_slots, read_stats
from pilothouse_llamacpp.settings import ENGINE, LlamaCppSettings

_SECONDS = 10.0
_TOO_LONG = "exceed_context_size_error"
_NOT_SUPPORTED = 501
_OWN_PARAMETERS = frozenset({"chat_template_kwargs", "ignore_eos", "min_p", "top_k"})
_TOOL_PARAMETERS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_TEMPLATED = ("messages", "tools", "tool_choice", "chat_template_kwargs")


class LlamaCppDialect:
    """One llama.cpp server."""

    engine = ENGINE
    keeps_connections = False
    """It hangs up once it has streamed an answer, and says before that it will not."""

    def __init__(self, settings: LlamaCppSettings, clock: MonotonicClock) -> None:
        self._gauges = ScrapedStats(LLAMACPP, SIGNALS, read_stats, settings.metrics_seconds, clock)
        self._num_slots: int | None = None
        self._query = ""

    async def learn(self, http: EndpointHttp, model: Mapping[str, Any]) -> Learned:
        """All of it from /props: the build, the slots and the length of each. A server that routes
        among several models wants to be told which is meant, and another passes over it."""
        self._query = f"?{urlencode({'model': str(model.get('id', ''))})}"
        self._gauges.path = f"{METRICS_PATH}{self._query}"
        props = await http.find_json(f"/props{self._query}", _SECONDS)
        build = props.get("build_info") if isinstance(props, Mapping) else None
        if not isinstance(props, Mapping) or not isinstance(build, str):
            raise http.unavailable(
                "GET /props tells no build_info, so it is no server of llama.cpp: attach it as "
                "`openai`, or correct the Model's url"
            )
        self._num_slots = count_in(props.get("total_slots"))
        generation = props.get("default_generation_settings")
        length = generation.get("n_ctx") if isinstance(generation, Mapping) else None
        return Learned(
            version=build,
            max_model_len=count_in(length),
            max_num_seqs=self._num_slots,
            parameters=_parameters(props.get("chat_template_caps")),
        )

    async def stats(self, http: EndpointHttp) -> EngineStats:
        """Of its metrics, or of its slots where it was started without --metrics."""
        found = await self._gauges.stats(http)
        if found is None:
            found = read_slots(await http.find_json(f"/slots{self._query}", _SECONDS))
        return replace(found or EngineStats(age_seconds=0.0), max_num_seqs=self._num_slots)

    def read_refusal(self, status: int, body: object) -> Refusal:
        """Its types of errors say more than their statuses."""
        refusal = read_plain_refusal(status, body)
        if error_of(body).get("type") == _TOO_LONG:
            return replace(refusal, status_code=400, code=CONTEXT_LENGTH_EXCEEDED)
        if status == _NOT_SUPPORTED:  # of what was asked for, not of the server
            return replace(refusal, status_code=400)
        return refusal

    def more_of(self, request: EngineRequest, taken: frozenset[str]) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    async def count_prompt(
        self, http: EndpointHttp, model: str, body: Mapping[str, Any]
    ) -> int | None:
        """By POST /apply-template, then /tokenize."""
        text = body.get("prompt")
        if text is None:
            asked = {key: body[key] for key in _TEMPLATED if key in body} | {"model": model}
            said = await http.post_json("/apply-template", asked, _SECONDS)
            text = said.get("prompt") if isinstance(said, Mapping) else None
        if not isinstance(text, str):
            return None
        counted = {"model": model, "content": text, "add_special": True, "parse_special": True}
        answer = await http.post_json("/tokenize", counted, _SECONDS)
        tokens = answer.get("tokens") if isinstance(answer, Mapping) else None
        return len(tokens) if isinstance(tokens, list) else None


def _parameters(caps: object) -> frozenset[str]:
    """A template that knows no tools would leave them out without a word."""
    takes_tools = not isinstance(caps, Mapping) or caps.get("supports_tools") is not False
    return (USUAL | _OWN_PARAMETERS) - (frozenset() if takes_tools else _TOOL_PARAMETERS)

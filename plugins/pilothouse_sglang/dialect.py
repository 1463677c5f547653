"""SGLang's ways behind OpenAI's API: its version, its seats, its gauges, its aborts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineRequest, EngineStats
from dataplane.engine_metrics.scrape import Scrape
from dataplane.engine_metrics.tables.sglang import SGLANG
from dataplane.openai_endpoint.dialect import Learned, count_in
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.parameters import PASSED_ON, fields_in_openapi
from dataplane.openai_endpoint.refusal import (
    CONTEXT_LENGTH_EXCEEDED,
    Refusal,
    error_message,
    read_plain_refusal,
)
from dataplane.openai_endpoint.scraping import ScrapedStats
from pilothouse_sglang.gauges import SIGNALS, read_stats
from pilothouse_sglang.settings import ENGINE, SglangSettings

_SECONDS = 10.0
_SALT = "cache_salt"
_INFO_PATHS = ("/server_info", "/get_server_info")
"""The newer name first."""
_TOO_LONG = ("model's context length", "maximum allowed length", "maximum context length")


class SglangDialect:
    """One SGLang server."""

    engine = ENGINE
    keeps_connections = True

    def __init__(self, settings: SglangSettings, clock: MonotonicClock) -> None:
        self._settings = settings
        self._takes_salt = False
        self._max_num_seqs: int | None = None
        self._page_size: int | None = None
        self._gauges = ScrapedStats(SGLANG, SIGNALS, self._read, settings.metrics_seconds, clock)

    async def learn(self, http: EndpointHttp, model: Mapping[str, Any]) -> Learned:
        """Its version, seats and page size from its server's info, its length from its list of
        models, and what it takes from its OpenAPI document."""
        info = await self._find_info(http)
        fields = fields_in_openapi(await http.find_json("/openapi.json", _SECONDS))
        self._takes_salt = _SALT in fields
        self._max_num_seqs = count_in(info.get("max_running_requests")) or _effective_seats(info)
        self._page_size = count_in(info.get("page_size"))
        return Learned(
            version=str(info["version"]),
            max_model_len=count_in(model.get("max_model_len"))
            or count_in(info.get("context_length")),
            max_num_seqs=self._max_num_seqs,
            parameters=(fields & PASSED_ON) or None,
            shows_cached_tokens=info.get("enable_cache_report") is True,
        )

    async def stats(self, http: EndpointHttp) -> EngineStats:
        """Of its metrics; it exports none unless it was started with --enable-metrics."""
        found = await self._gauges.stats(http) or EngineStats(age_seconds=0.0)
        return replace(found, max_num_seqs=self._max_num_seqs)

    def read_refusal(self, status: int, body: object) -> Refusal:
        """A stream that it aborts tells the status in its last chunk, whatever the answer began
        with: its queue is full (503), or the prompt was too long (400)."""
        refusal = read_plain_refusal(status, body)
        message = error_message(body).lower()
        if status == 400 and any(words in message for words in _TOO_LONG):
            return replace(refusal, code=CONTEXT_LENGTH_EXCEEDED)
        return refusal

    def more_of(self, request: EngineRequest, taken: frozenset[str]) -> Mapping[str, Any]:
        """A salt for the prefix cache, so that tenants cannot find each other's prompts in it."""
        is_salted = self._takes_salt and self._settings.isolate_prefixes and request.isolation_key
        return {_SALT: request.isolation_key} if is_salted else {}

    async def count_prompt(
        self, http: EndpointHttp, model: str, body: Mapping[str, Any]
    ) -> int | None:
        """By POST /v1/tokenize, which knows no chat template: chats it cannot count."""
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            return None
        answer = await http.post_json("/v1/tokenize", {"model": model, "prompt": prompt}, _SECONDS)
        return count_in(answer.get("count")) if isinstance(answer, Mapping) else None

    def _read(self, scrape: Scrape) -> EngineStats:
        return read_stats(scrape, self._page_size)

    async def _find_info(self, http: EndpointHttp) -> Mapping[str, Any]:
        for path in _INFO_PATHS:
            info = await http.find_json(path, _SECONDS)
            if isinstance(info, Mapping) and isinstance(info.get("version"), str):
                return info
        raise http.unavailable(
            f"GET {' and '.join(_INFO_PATHS)} tell no version, so it is no SGLang server: attach "
            f"it as `openai`, or correct the Model's url"
        )


def _effective_seats(info: Mapping[str, Any]) -> int | None:
    """What its schedulers settled on, one entry for each data-parallel rank."""
    states = info.get("internal_states")
    if not isinstance(states, list) or not all(isinstance(each, Mapping) for each in states):
        return None
    seats = [count_in(each.get("effective_max_running_requests_per_dp")) for each in states]
    known = [number for number in seats if number is not None]
    return sum(known) if known and len(known) == len(seats) else None

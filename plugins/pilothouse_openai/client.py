"""The client of one OpenAI-compatible endpoint.

The upstream call always streams, whatever our own caller asked for: only so does the first
token have a time. A reader task per request feeds a queue, so that a cancel can end the
upstream response at once by cancelling that task. While too much waits in the queue nothing is
read, and the endpoint finds its connection full.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from dataplane.engine import (
    EngineCapabilities,
    EngineEvent,
    EngineRequest,
    EngineStats,
    EngineUnavailableError,
)
from dataplane.event_queue import EventQueue
from dataplane.lifecycle import ANSWERS, Disposition, EventKind, Observability
from dataplane.line_stream import LineTooLongError, read_lines
from pilothouse_openai import ENGINE
from pilothouse_openai.chunks import ChunkReader, MalformedChunkError
from pilothouse_openai.settings import OpenAISettings

_MAX_ERROR_BODY_BYTES = 4096
# What every such endpoint takes, beside what is said about model, limit and stream.
_BASE_FIELDS = frozenset({"messages", "prompt", "seed", "stop", "temperature", "top_p"})
_MAX_LINE_BYTES = 4 * 2**20
"""A chunk is one line."""


@dataclass(slots=True)
class _Attempt:
    """One request under way at the endpoint."""

    events: EventQueue = field(default_factory=EventQueue)
    reader: asyncio.Task[None] | None = None


class OpenAIClient:
    """EngineClient over HTTP. `base_url` is with or without the trailing /v1."""

    def __init__(self, replica_id: str, base_url: str, settings: OpenAISettings) -> None:
        self._replica_id = replica_id
        self._settings = settings
        key = settings.read_api_key()
        self._http = httpx.AsyncClient(
            base_url=base_url.rstrip("/").removesuffix("/v1") + "/v1",
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(
                settings.read_timeout_seconds, connect=settings.connect_timeout_seconds
            ),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )
        self._model: str | None = settings.model
        self._capabilities: EngineCapabilities | None = None
        self._attempts: dict[str, _Attempt] = {}

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `connect`."""
        if self._capabilities is None:
            raise RuntimeError("capabilities are known only after connect()")
        return self._capabilities

    async def connect(self) -> None:
        """Ask which models it serves, and take the configured one or the first."""
        listed = await self._list_models()
        names = [str(entry.get("id")) for entry in listed]
        if self._model is None:
            if not names:
                raise self._unavailable("it lists no model; name one in settings.model")
            self._model = names[0]
        elif names and self._model not in names:
            raise self._unavailable(
                f"it does not serve settings.model {self._model!r}; it lists {', '.join(names)}"
            )
        entry = next((e for e in listed if e.get("id") == self._model), {})
        says = entry.get("max_model_len")
        lengths = [n for n in (self._settings.max_model_len, says) if isinstance(n, int)]
        self._capabilities = EngineCapabilities(
            engine=ENGINE,
            version=str(entry.get("owned_by", "unknown")),
            takes_token_ids=False,
            max_model_len=min(lengths, default=None),
            max_num_seqs=self._settings.max_num_seqs,
            prefill=Observability.INFERRED,
            decode=Observability.INFERRED,
            cleanup=Observability.UNOBSERVABLE,
            token_counts=Observability.INFERRED,
            cached_tokens=Observability.UNOBSERVABLE,
            parameters=self._settings.taken_parameters,
        )

    async def submit(self, request: EngineRequest) -> AsyncIterator[EngineEvent]:
        """Stream one request. The queue span closes now: nothing shows when work really begins."""
        attempt = _Attempt()
        num_open = request.sampling.num_sequences
        self._attempts[request.request_id] = attempt
        yield EngineEvent(kind=EventKind.SCHEDULED)
        attempt.reader = asyncio.create_task(self._read(request, attempt))
        attempt.reader.add_done_callback(lambda task: self._report_bug(task, attempt))
        try:
            while True:
                if attempt.events.is_empty:
                    await attempt.events.wait()
                event = attempt.events.take()
                yield event
                if event.kind is EventKind.FINISHED:
                    num_open = num_open - 1 if event.disposition in ANSWERS else 0
                    if not num_open:
                        return
        finally:
            self._attempts.pop(request.request_id, None)
            await _end(attempt.reader)

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        """Hang up on the endpoint; whether it stops computing cannot be seen from here."""
        attempt = self._attempts.pop(request_id, None)
        if attempt is None:
            return
        await _end(attempt.reader)
        attempt.events.put(EngineEvent(kind=EventKind.FINISHED, disposition=disposition))

    async def stats(self) -> EngineStats:
        """Nothing but that it answers: the OpenAI surface has no gauges."""
        await self._list_models()
        return EngineStats(age_seconds=0.0, max_num_seqs=self._settings.max_num_seqs)

    async def close(self) -> None:
        """Hang up on everything."""
        for attempt in list(self._attempts.values()):
            await _end(attempt.reader)
            attempt.events.put(self._unavailable("the gateway closed the connection"))
        await self._http.aclose()

    async def _list_models(self) -> list[Mapping[str, Any]]:
        try:
            response = await self._http.get("/models")
            response.raise_for_status()
            listed: list[Mapping[str, Any]] = response.json()["data"]
            if not all(isinstance(entry, Mapping) for entry in listed):
                raise TypeError("an entry of data is no object")
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise self._unavailable(f"GET /v1/models: {_say(error)}") from error
        return listed

    async def _read(self, request: EngineRequest, attempt: _Attempt) -> None:
        """Put the events of one upstream response into the attempt's queue."""
        try:
            path = request.endpoint.removeprefix("/v1")
            async with self._http.stream(
                "POST", path, json=self._body(request), headers=_trace_headers(request)
            ) as response:
                if response.status_code != httpx.codes.OK:
                    attempt.events.put(await _refusal(response))
                    return
                await self._follow(request, response, attempt)
        except (httpx.HTTPError, LineTooLongError, MalformedChunkError, ValueError) as error:
            attempt.events.put(self._unavailable(_say(error)))

    async def _follow(
        self, request: EngineRequest, response: httpx.Response, attempt: _Attempt
    ) -> None:
        reader = ChunkReader(num_sequences=request.sampling.num_sequences)
        async for line in read_lines(response.aiter_bytes(), _MAX_LINE_BYTES):
            data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                break
            if not data:
                continue
            chunk = json.loads(data.decode(errors="replace"))
            if isinstance(chunk, dict) and chunk.get("error"):
                attempt.events.put(
                    EngineEvent(
                        kind=EventKind.FINISHED,
                        disposition=Disposition.ERROR,
                        status_code=502,
                        reason=_error_message(chunk),
                    )
                )
                return
            for event in reader.read(chunk):
                attempt.events.put(event)
            if attempt.events.is_full:
                await attempt.events.room()
        for event in reader.end():
            attempt.events.put(event)

    def _body(self, request: EngineRequest) -> dict[str, Any]:
        # What asks for nothing (top_k: 0) is accepted from callers and yet a name that the endpoint
        # may refuse. The limit goes under one name: the gateway settled it (its default, a policy).
        taken = (_BASE_FIELDS | self.capabilities.parameters) - {"max_completion_tokens"}
        return {key: value for key, value in request.body.items() if key in taken} | {
            "model": self._model,
            "max_tokens": request.sampling.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _report_bug(self, task: asyncio.Task[None], attempt: _Attempt) -> None:
        """A reader that died of something unforeseen must not leave its request waiting."""
        if not task.cancelled() and (error := task.exception()) is not None:
            attempt.events.put(self._unavailable(f"reading its stream failed: {error!r}"))

    def _unavailable(self, why: str) -> EngineUnavailableError:
        return EngineUnavailableError(self._replica_id, why)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait({task})


def _trace_headers(request: EngineRequest) -> dict[str, str]:
    return {"traceparent": request.traceparent} if request.traceparent else {}


async def _refusal(response: httpx.Response) -> EngineEvent:
    """The caller's own mistakes keep their 4xx; everything else is the service's (502, 503)."""
    body = (await response.aread())[:_MAX_ERROR_BODY_BYTES]
    try:
        message = _error_message(json.loads(body))
    except ValueError:
        message = body.decode(errors="replace")
    is_callers = response.status_code in (400, 404, 413, 422)
    is_busy = response.status_code in (429, 503)
    return EngineEvent(
        kind=EventKind.FINISHED,
        disposition=Disposition.ERROR,
        status_code=response.status_code if is_callers else 503 if is_busy else 502,
        reason=f"the endpoint answered {response.status_code}: {message}",
    )


def _error_message(body: object) -> str:
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

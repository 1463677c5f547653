"""The client of one OpenAI-compatible endpoint, whatever engine is behind it.

The upstream call always streams, whatever our own caller asked for: only so does the first
token have a time. Its connection feeds a queue, so that a cancel can hang up at once. While too
much waits in the queue nothing is read, and the endpoint finds its connection full.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec

from dataplane.engine import (
    EngineCapabilities,
    EngineEvent,
    EngineRequest,
    EngineStats,
    EngineUnavailableError,
)
from dataplane.lifecycle import ANSWERS, Disposition, EventKind, Observability
from dataplane.openai_endpoint.answer import Answer
from dataplane.openai_endpoint.dialect import Dialect, Learned
from dataplane.openai_endpoint.http import EndpointHttp, say
from dataplane.openai_endpoint.parameters import USUAL
from dataplane.openai_endpoint.proof import prove
from dataplane.openai_endpoint.scraping import check_health
from dataplane.openai_endpoint.settings import EndpointSettings

_MODELS_SECONDS = 10.0
_PROOF_SECONDS = 60.0
# What every such endpoint takes, beside what is said about model, limit and stream.
_BASE_FIELDS = frozenset({"messages", "prompt", "seed", "stop", "temperature", "top_p"})


class EndpointClient:
    """EngineClient over HTTP."""

    def __init__(
        self,
        replica_id: str,
        address: str,
        settings: EndpointSettings,
        dialect: Dialect,
        proof_seconds: float | None = None,
    ) -> None:
        """`address`: a base URL with or without /v1, or host:port. `proof_seconds`: how long a
        token may take that is generated before the endpoint counts as ready; None: none is."""
        self._replica_id = replica_id
        self._settings = settings
        self._dialect = dialect
        self._proof_seconds = proof_seconds
        self._http = EndpointHttp(replica_id, address, settings)
        self._model: str | None = settings.model
        self._capabilities: EngineCapabilities | None = None
        self._upstream = self._http.create_upstream(dialect.keeps_connections)
        self._answers: dict[str, Answer] = {}
        self._lost: str | None = None
        """Why it is given up, where it did not answer."""

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `connect`."""
        if self._capabilities is None:
            raise RuntimeError("capabilities are known only after connect()")
        return self._capabilities

    async def connect(self) -> None:
        """Ask what it serves, take the configured model or the first, and let it prove itself."""
        entry = await self._choose_model()
        learned = await self._dialect.learn(self._http, entry)
        shows_cached = learned.shows_cached_tokens
        if self._proof_seconds is not None:
            proof = await prove(self._http, str(self._model), self._proof_seconds)
            shows_cached = proof.shows_cached_tokens if shows_cached is None else shows_cached
        self._capabilities = self._derive(learned, bool(shows_cached))

    async def prove(self) -> None:
        """Generate one token, and learn nothing else: who only watches asks no more of an engine.
        Raises EngineUnavailableError."""
        await self._choose_model()
        await prove(self._http, str(self._model), self._proof_seconds or _PROOF_SECONDS)

    async def is_well(self) -> bool:
        """It answers, and says that it is well, for whatever that is worth."""
        try:
            await check_health(self._http)
        except EngineUnavailableError:
            return False
        return True

    async def submit(self, request: EngineRequest) -> AsyncIterator[EngineEvent]:
        """Stream one request. The queue span closes now: nothing shows when work really begins."""
        answer = Answer(self._replica_id, self._dialect, request.sampling.num_sequences)
        num_open = request.sampling.num_sequences
        self._answers[request.request_id] = answer
        yield EngineEvent(kind=EventKind.SCHEDULED)
        try:
            if not answer.is_over:  # it may be cancelled already
                self._send(request, answer)
            while True:
                if answer.events.is_empty:
                    await answer.events.wait()
                event = answer.events.take()
                yield event
                if event.kind is EventKind.FINISHED:
                    num_open = num_open - 1 if event.disposition in ANSWERS else 0
                    if not num_open:
                        return
        finally:
            self._answers.pop(request.request_id, None)
            answer.leave()

    def _send(self, request: EngineRequest, answer: Answer) -> None:
        body = msgspec.json.encode(self._body(request))
        answer.exchange = self._upstream.post(request.endpoint, _headers(request), body, answer)

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        """Hang up on the endpoint; whether it stops computing cannot be seen from here."""
        answer = self._answers.pop(request_id, None)
        if answer is not None:
            answer.end_early(disposition)

    async def stats(self) -> EngineStats:
        """What its engine exports of itself, as its dialect reads it."""
        try:
            return await self._dialect.stats(self._http)
        except EngineUnavailableError as error:
            self._lost = error.why
            raise

    async def count_prompt(self, body: Mapping[str, Any]) -> int | None:
        """The tokens of the prompt in `body`, by the engine's own tokenizer; None: it offers none.
        Raises EngineUnavailableError."""
        return await self._dialect.count_prompt(self._http, str(self._model), body)

    async def close(self) -> None:
        """Hang up on everything."""
        for answer in list(self._answers.values()):
            answer.lost(self._lost or "the gateway closed the connection")
        self._upstream.close()
        await self._http.close()

    async def _choose_model(self) -> Mapping[str, Any]:
        listed = await self._list_models()
        names = [str(entry.get("id")) for entry in listed]
        if self._model is None:
            if not names:
                raise self._http.unavailable("it lists no model; name one in settings.model")
            self._model = names[0]
        elif names and self._model not in names:
            raise self._http.unavailable(
                f"it does not serve settings.model {self._model!r}; it lists {', '.join(names)}"
            )
        return next((each for each in listed if each.get("id") == self._model), {})

    async def _list_models(self) -> list[Mapping[str, Any]]:
        response = await self._http.get("/v1/models", _MODELS_SECONDS)
        try:
            response.raise_for_status()
            listed: list[Mapping[str, Any]] = response.json()["data"]
            if not all(isinstance(entry, Mapping) for entry in listed):
                raise TypeError("an entry of data is no object")
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise self._http.unavailable(f"GET /v1/models: {say(error)}") from error
        return listed

    def _derive(self, learned: Learned, shows_cached: bool) -> EngineCapabilities:
        settings = self._settings
        named = settings.parameters
        told = USUAL if learned.parameters is None else learned.parameters
        return EngineCapabilities(
            engine=self._dialect.engine,
            version=learned.version,
            takes_token_ids=False,
            max_model_len=_least(settings.max_model_len, learned.max_model_len),
            max_num_seqs=_least(settings.max_num_seqs, learned.max_num_seqs),
            prefill=Observability.INFERRED,
            decode=Observability.INFERRED,
            cleanup=Observability.UNOBSERVABLE,
            token_counts=Observability.INFERRED,
            cached_tokens=Observability.OBSERVED if shows_cached else Observability.UNOBSERVABLE,
            parameters=(told if named is None else frozenset(named)) | settings.granted_parameters,
        )

    def _body(self, request: EngineRequest) -> dict[str, Any]:
        # What asks for nothing (top_k: 0) is accepted from callers and yet a name that the endpoint
        # may refuse. The limit goes under one name: the gateway settled it (its default, a policy).
        parameters = self.capabilities.parameters
        taken = (_BASE_FIELDS | parameters) - {"max_completion_tokens"}
        return {
            **{key: value for key, value in request.body.items() if key in taken},
            "model": self._model,
            "max_tokens": request.sampling.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._dialect.more_of(request, parameters),
        }


def _headers(request: EngineRequest) -> dict[str, str]:
    """The trace that it belongs to, and its name: engines that take one log and trace it so."""
    number = f"-{request.attempt}" if request.attempt else ""
    named = {"x-request-id": f"{request.request_id}{number}"}
    return named | ({"traceparent": request.traceparent} if request.traceparent else {})


def _least(*bounds: int | None) -> int | None:
    return min((each for each in bounds if each is not None), default=None)

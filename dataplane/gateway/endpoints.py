"""What a gateway answers, path by path, as plain ASGI: nothing wraps the token path."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dataplane.access import AuthMode, KeyRing
from dataplane.gateway import flow
from dataplane.gateway.callers import check_client, check_reader
from dataplane.gateway.exchange import Exchange
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.holdings import find_broken, read_held, read_remembered
from dataplane.gateway.openai_api.answers import (
    CHAT_ENDPOINT,
    COMPLETION_ENDPOINT,
    describe_model,
    list_models,
)
from dataplane.gateway.openai_api.documents import ChatDocument, CompletionDocument
from dataplane.gateway.openai_api.errors import ApiError, ApiRefusalError
from dataplane.gateway.status import DEPLOYMENTS_PATH, PROBE_HEADER

_MODELS_PATH = "/v1/models"
_FOREIGN_HEALTH_PATH = "/health"
"""Where other engines' servers tell it: clients made for those, such as guidellm, look there first
and go away."""
_SHOWN_PATH_CHARS = 200
_NO_SNAPSHOT = ApiError(
    status=503,
    message="This gateway has seen no snapshot yet: it does not know its deployments, tenants and "
    "keys. They come from the control plane; try again shortly.",
    code="no_snapshot",
    retry_after_seconds=1,
)
"""Never 401 or 404: what it has not been told may well exist."""
RenderMetrics = Callable[[str | None], tuple[bytes, str]]
"""Body and content type for an Accept header."""
Answer = Callable[[Exchange], Awaitable[Any]]


Check = Callable[[AuthMode, KeyRing, Mapping[str, str], int, str], None]
"""Who may ask; raises ApiRefusalError."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    method: str
    answer: Answer
    check: Check | None = None
    """None: everybody."""
    needs_snapshot: bool = False
    """It can answer nothing before it enforces one."""
    takes_probes: bool = False
    """Whoever started this process may ask without a key."""
    is_for_watchers: bool = False
    """It tells of this process, and is answered at the private address of one that leaves too."""

    @property
    def methods(self) -> tuple[str, ...]:
        """What it answers; the server leaves the body of an answer to HEAD out."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)

    @property
    def allow(self) -> str:
        """As the header of the same name says it."""
        return ", ".join((*self.methods, "OPTIONS"))


class Endpoints:
    """The ASGI application of one gateway, once it runs."""

    def __init__(self, gateway: Gateway, render_metrics: RenderMetrics) -> None:
        self._gateway = gateway
        self._render_metrics = render_metrics
        health = _Endpoint("GET", self._tell_health, is_for_watchers=True)
        self._by_path: Mapping[str, _Endpoint] = {
            CHAT_ENDPOINT: _Endpoint(
                "POST", self._chat, check_client, needs_snapshot=True, takes_probes=True
            ),
            COMPLETION_ENDPOINT: _Endpoint(
                "POST", self._complete, check_client, needs_snapshot=True, takes_probes=True
            ),
            _MODELS_PATH: _Endpoint("GET", self._list_models, check_client, needs_snapshot=True),
            DEPLOYMENTS_PATH: _Endpoint(
                "GET", self._tell_deployments, check_reader, needs_snapshot=True, takes_probes=True
            ),
            "/healthz": health,
            _FOREIGN_HEALTH_PATH: health,
            "/metrics": _Endpoint("GET", self._tell_metrics, check_reader, is_for_watchers=True),
            "/internal/requests": _Endpoint(
                "GET", self._tell_requests, check_reader, is_for_watchers=True
            ),
            "/internal/holdings": _Endpoint(
                "GET", self._tell_holdings, check_reader, is_for_watchers=True
            ),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(
            uuid.uuid4().hex,
            scope,
            receive,
            send,
            self._gateway.settings.write_seconds,
            self._gateway.bodies.lease(),
        )
        endpoint = self._find(exchange.path)
        if exchange.arrival.connection.is_private and not (endpoint and endpoint.is_for_watchers):
            message = "This gateway is leaving; its private address tells only of itself."
            await exchange.answer_error(ApiError(status=404, message=message, code="unknown_url"))
        elif endpoint is None:
            message = (
                f"Unknown path: {exchange.method} {exchange.path[:_SHOWN_PATH_CHARS]}. This "
                f"gateway serves chat and completions only: POST {CHAT_ENDPOINT}, "
                f"POST {COMPLETION_ENDPOINT} and GET {_MODELS_PATH}."
            )
            await exchange.answer_error(ApiError(status=404, message=message, code="unknown_url"))
        elif exchange.method == "OPTIONS":
            await exchange.answer_nothing({"allow": endpoint.allow})
        elif exchange.method not in endpoint.methods:
            message = (
                f"{exchange.path[:_SHOWN_PATH_CHARS]} takes {endpoint.method}, "
                f"not {exchange.method}."
            )
            error = ApiError(status=405, message=message, code="method_not_allowed")
            await exchange.answer_error(error, {"allow": endpoint.allow})
        elif (refusal := self._refuse(endpoint, exchange)) is not None:
            await exchange.answer_error(refusal)
        else:
            await endpoint.answer(exchange)

    def _refuse(self, endpoint: _Endpoint, exchange: Exchange) -> ApiError | None:
        """Who is unknown is counted here, and leaves no other trace. Nobody is unknown to a
        gateway that was told of nobody."""
        gateway = self._gateway
        if endpoint.needs_snapshot and not gateway.has_snapshot:
            return _NO_SNAPSHOT
        if endpoint.check is None:
            return None
        if endpoint.takes_probes and gateway.is_probe(exchange.headers.get(PROBE_HEADER, "")):
            return None
        try:
            exchange.require_one("authorization")
            endpoint.check(
                gateway.settings.auth,
                gateway.enforced.keys,
                exchange.headers,
                gateway.wall_clock(),
                gateway.settings.name,
            )
        except ApiRefusalError as refusal:
            if not gateway.has_snapshot:
                return _NO_SNAPSHOT
            if refusal.error.status != 403:  # then its key is known
                gateway.num_unauthenticated_by_code[refusal.error.code or "unknown"] += 1
            return refusal.error
        return None

    def _find(self, path: str) -> _Endpoint | None:
        if path.startswith(f"{_MODELS_PATH}/"):
            return _Endpoint("GET", self._get_model, check_client, needs_snapshot=True)
        return self._by_path.get(path)

    async def _chat(self, exchange: Exchange) -> None:
        await flow.handle(self._gateway, exchange, ChatDocument)

    async def _complete(self, exchange: Exchange) -> None:
        await flow.handle(self._gateway, exchange, CompletionDocument)

    async def _list_models(self, exchange: Exchange) -> None:
        models = list_models(self._gateway.enforced.snapshot)
        await exchange.answer_json({"object": "list", "data": models})

    async def _get_model(self, exchange: Exchange) -> None:
        name = exchange.path.removeprefix(f"{_MODELS_PATH}/")
        deployment = self._gateway.enforced.snapshot.find_deployment(name)
        if deployment is None or deployment.is_observed_only:
            error = ApiError(
                status=404,
                message=f"The model '{name}' does not exist.",
                param="model",
                code="model_not_found",
            )
            await exchange.answer_error(error)
        else:
            await exchange.answer_json(describe_model(name, deployment.created_at_unix))

    async def _tell_health(self, exchange: Exchange) -> None:
        gateway = self._gateway
        await exchange.answer_json(
            {
                "gateway_id": gateway.gateway_id,
                "is_draining": gateway.is_draining or gateway.is_leaving,
                "snapshot_version": gateway.enforced.snapshot.version,
                "waits_for": None if gateway.has_snapshot else _NO_SNAPSHOT.code,
            }
        )

    async def _tell_deployments(self, exchange: Exchange) -> None:
        """What it could serve right now; a probe of a deployment without a replica is in vain."""
        gateway = self._gateway
        snapshot, connected = gateway.enforced.snapshot, gateway.fleet.connected()
        await exchange.answer_json(
            {
                "snapshot_version": snapshot.version,
                "deployments": [
                    {
                        "name": each.name,
                        "num_connected": sum(r.replica_id in connected for r in each.replicas),
                    }
                    for each in snapshot.deployments
                ],
            }
        )

    async def _tell_metrics(self, exchange: Exchange) -> None:
        body, content_type = self._render_metrics(exchange.headers.get("accept"))
        await exchange.answer(200, body, content_type)

    async def _tell_requests(self, exchange: Exchange) -> None:
        """The live list and the counts, both of one moment."""
        gateway = self._gateway
        positions = {
            ticket: place
            for queue in gateway.fleet.queues()
            for ticket, place in queue.positions().items()
        }
        await exchange.answer_json(
            {
                "at_unix_ns": gateway.wall_clock(),
                "gateway_id": gateway.gateway_id,
                "counts": msgspec.to_builtins(gateway.registry.counts()),
                "requests": [request.describe(positions) for request in gateway.registry.live()],
            }
        )

    async def _tell_holdings(self, exchange: Exchange) -> None:
        """What requests in flight hold, and whether every count is what its holders have."""
        gateway = self._gateway
        tasks = Counter(_kind_of(task) for task in asyncio.all_tasks())
        await exchange.answer_json(
            {
                "at_unix_ns": gateway.wall_clock(),
                "gateway_id": gateway.gateway_id,
                "held": read_held(gateway),
                "remembered": read_remembered(gateway),
                "broken": find_broken(gateway),
                "tasks": dict(sorted(tasks.items())),
            }
        )


def _kind_of(task: "asyncio.Task[Any]") -> str:
    """What a task does, whoever it does it for."""
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", type(coroutine).__name__)

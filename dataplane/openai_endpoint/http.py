"""One endpoint by HTTP: its root, its key, and what becomes of its failures.

It is reached directly: proxies that the environment names are for the outside, and an engine's
stream through one of them would be held up there.

What answers may be anything. An answer is read within a bound of bytes and of time, and none that
is packed: a few kilobytes could unpack to more than there is memory.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from dataplane.engine import EngineUnavailableError
from dataplane.openai_endpoint.settings import EndpointSettings
from dataplane.openai_endpoint.upstream import Upstream

_NOT_OFFERED = frozenset({403, 404, 405, 501})
"""What servers answer for a path that they do not have, or were told not to serve."""
_KEPT_SECONDS = 2.0
"""Servers hang up on idle connections after five seconds, and one that is used at that moment is
lost with its request."""


_MAX_BYTES = 8 * 2**20
"""The longest pages of metrics, of engines with many ranks and adapters, have some 2 MiB."""


class AnswerUnreadableError(EngineUnavailableError):
    """It answers, but nothing that is read here: too long, or packed."""


class EndpointHttp:
    """One endpoint, at `address`: a base URL with or without /v1, or host:port."""

    def __init__(self, replica_id: str, address: str, settings: EndpointSettings) -> None:
        key = settings.read_api_key()
        url = address if "://" in address else f"http://{address}"
        self._replica_id = replica_id
        self._url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._timeout = httpx.Timeout(
            settings.read_timeout_seconds, connect=settings.connect_timeout_seconds
        )
        self._settings = settings
        self._tls = httpx.create_ssl_context() if self._url.startswith("https://") else None
        self._client = httpx.AsyncClient(
            base_url=self._url,
            headers={**self._headers, "accept-encoding": "identity"},
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEPT_SECONDS),
            trust_env=False,
            verify=self._tls or False,  # without TLS there is nothing to verify
        )

    def create_upstream(self, keeps_connections: bool) -> Upstream:
        """For its streams."""
        return Upstream(self._url, self._settings, self._headers, keeps_connections, self._tls)

    async def get(self, path: str, timeout_seconds: float) -> httpx.Response:
        """Whatever it answers, in whole within `timeout_seconds`. Raises EngineUnavailableError
        when it does not, and of that AnswerUnreadableError."""
        return await self._ask("GET", path, None, timeout_seconds)

    async def find_json(self, path: str, timeout_seconds: float) -> Any:
        """What it answers as JSON; None where it does not offer `path`, or no JSON there. Raises
        EngineUnavailableError."""
        response = await self.get(path, timeout_seconds)
        if response.status_code in _NOT_OFFERED:
            return None
        if response.is_error:
            raise self.unavailable(f"GET {path}: it answered {response.status_code}")
        try:
            return response.json()
        except ValueError:
            return None

    async def post_json(self, path: str, body: Mapping[str, Any], timeout_seconds: float) -> Any:
        """What it answers as JSON. Raises EngineUnavailableError, also for any error status."""
        response = await self._ask("POST", path, json.dumps(body).encode(), timeout_seconds)
        try:
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self.unavailable(f"POST {path}: {say(error)}") from error

    async def _ask(
        self, method: str, path: str, body: bytes | None, timeout_seconds: float
    ) -> httpx.Response:
        asked = f"{method} {path}"
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._client.stream(
                    method, path, content=body, headers=headers, timeout=timeout_seconds
                ) as response,
            ):
                return await self._read(asked, response)
        except TimeoutError as error:
            raise self.unavailable(
                f"{asked}: no whole answer within {timeout_seconds:g} s"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unavailable(f"{asked}: {say(error)}") from error

    async def _read(self, asked: str, response: httpx.Response) -> httpx.Response:
        packing = response.headers.get("content-encoding", "identity")
        if packing != "identity":
            raise AnswerUnreadableError(
                self._replica_id, f"{asked}: its answer is packed ({packing}), unasked"
            )
        data = bytearray()
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > _MAX_BYTES:
                raise AnswerUnreadableError(
                    self._replica_id, f"{asked}: its answer is longer than {_MAX_BYTES >> 20} MiB"
                )
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            content=bytes(data),
            request=response.request,
        )

    def unavailable(self, why: str) -> EngineUnavailableError:
        """The exception that names this replica."""
        return EngineUnavailableError(self._replica_id, why)

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()


def say(error: Exception) -> str:
    """An exception in words; many of an HTTP library have none."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

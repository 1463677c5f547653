"""One endpoint by HTTP: its root, its key, and what becomes of its failures.

It is reached directly: proxies that the environment names are for the outside, and an engine's
stream through one of them would be held up there.
"""

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
            headers=self._headers,
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEPT_SECONDS),
            trust_env=False,
            verify=self._tls or False,  # without TLS there is nothing to verify
        )

    def create_upstream(self, keeps_connections: bool) -> Upstream:
        """For its streams."""
        return Upstream(self._url, self._settings, self._headers, keeps_connections, self._tls)

    async def get(self, path: str, timeout_seconds: float) -> httpx.Response:
        """Whatever it answers. Raises EngineUnavailableError when it does not."""
        try:
            return await self._client.get(path, timeout=timeout_seconds)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unavailable(f"GET {path}: {say(error)}") from error

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
        try:
            response = await self._client.post(path, json=body, timeout=timeout_seconds)
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self.unavailable(f"POST {path}: {say(error)}") from error

    def unavailable(self, why: str) -> EngineUnavailableError:
        """The exception that names this replica."""
        return EngineUnavailableError(self._replica_id, why)

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()


def say(error: Exception) -> str:
    """An exception in words; many of an HTTP library have none."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

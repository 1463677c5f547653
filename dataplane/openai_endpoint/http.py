"""The HTTP connection to one endpoint: its root, its key, and what becomes of its failures."""

from collections.abc import Mapping
from typing import Any

import httpx

from dataplane.engine import EngineUnavailableError
from dataplane.openai_endpoint.settings import EndpointSettings

_NOT_OFFERED = frozenset({403, 404, 405, 501})
"""What servers answer for a path that they do not have, or were told not to serve."""
_MAX_KEPT_CONNECTIONS = 256


class EndpointHttp:
    """One endpoint, at `address`: a base URL with or without /v1, or host:port."""

    def __init__(self, replica_id: str, address: str, settings: EndpointSettings) -> None:
        key = settings.read_api_key()
        self._replica_id = replica_id
        url = address if "://" in address else f"http://{address}"
        self.client = httpx.AsyncClient(
            base_url=url.rstrip("/").removesuffix("/v1"),
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(
                settings.read_timeout_seconds, connect=settings.connect_timeout_seconds
            ),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=_MAX_KEPT_CONNECTIONS
            ),
        )

    async def get(self, path: str, timeout_seconds: float) -> httpx.Response:
        """Whatever it answers. Raises EngineUnavailableError when it does not."""
        try:
            return await self.client.get(path, timeout=timeout_seconds)
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
            response = await self.client.post(path, json=body, timeout=timeout_seconds)
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self.unavailable(f"POST {path}: {say(error)}") from error

    def unavailable(self, why: str) -> EngineUnavailableError:
        """The exception that names this replica."""
        return EngineUnavailableError(self._replica_id, why)

    async def close(self) -> None:
        """Hang up."""
        await self.client.aclose()


def say(error: Exception) -> str:
    """An exception in words; many of an HTTP library have none."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

"""Small HTTP calls to processes of ours, from the standard library: it imports quickly."""

import http.client
import json
from collections.abc import Mapping
from typing import Any


def answers(host: str, port: int, path: str, timeout_seconds: float = 2.0) -> bool:
    """Something speaks HTTP there; what it says does not matter."""
    return call(host, port, "GET", path, timeout_seconds=timeout_seconds) is not None


def call(
    host: str,
    port: int,
    method: str,
    path: str,
    body: Any = None,
    timeout_seconds: float = 5.0,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any] | None:
    """Status and JSON (None where it is none); None when nobody answers."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        encoded = None if body is None else json.dumps(body).encode()
        said = {"content-type": "application/json", **(headers or {})}
        connection.request(method, path, encoded, said)
        response = connection.getresponse()
        return response.status, _parse(response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None

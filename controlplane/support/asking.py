"""Asking processes over HTTP while a bundle is made: never for long, never for too much."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

_TIMEOUT = httpx.Timeout(5, connect=2)
_MAX_SAID_BYTES = 300
MAX_ANSWER_BYTES = 16 * 2**20


class AskError(Exception):
    """An address did not answer with what was asked for."""


class Asker:
    """Asks one control plane, and the processes that it knows.

    Once the control plane did not answer at all it is not asked again: a bundle must be quick
    when everything is down.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.url = url.rstrip("/")
        self._headers = dict(headers)
        self._silent_because: str | None = None

    @property
    def secrets(self) -> list[str]:
        """What must not be in the bundle: the key, and the header that shows it."""
        return [part for value in self._headers.values() for part in (value, value.split()[-1])]

    def ask(self, path: str) -> Any:
        """The JSON that the control plane answers with. Raises AskError."""
        if self._silent_because is not None:
            raise AskError(self._silent_because)
        try:
            data = fetch(self.url + path, self._headers)
        except httpx.TransportError as error:
            self._silent_because = f"no control plane answers at {self.url} ({error})"
            raise AskError(self._silent_because) from error
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise AskError(f"{self.url}{path} answers with no JSON") from error

    def text(self, address: str, headers: Mapping[str, str] | None = None) -> str:
        """What `address`, of any process, answers with. Raises AskError.

        The caller's key is shown to the control plane alone; `headers` go to `address` instead.
        """
        if headers is None:
            headers = self._headers if address.startswith(f"{self.url}/") else {}
        try:
            return fetch(address, headers).decode("utf-8", "replace")
        except httpx.TransportError as error:
            raise AskError(
                f"{address} does not answer ({error or type(error).__name__})"
            ) from error


def fetch(address: str, headers: Mapping[str, str]) -> bytes:
    """Raises httpx.TransportError, and AskError for another answer than a success."""
    try:
        with httpx.stream("GET", address, headers=dict(headers), timeout=_TIMEOUT) as response:
            if not response.is_success:
                said = response.read()[:_MAX_SAID_BYTES].decode("utf-8", "replace").strip()
                raise AskError(f"{address} answered {response.status_code}: {said}")
            data = bytearray()
            for part in response.iter_bytes():
                data += part
                if len(data) > MAX_ANSWER_BYTES:
                    raise AskError(f"{address} answers with more than {MAX_ANSWER_BYTES} bytes")
            return bytes(data)
    except httpx.InvalidURL as error:
        raise AskError(f"{address!r} is no address: {error}") from error

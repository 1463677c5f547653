"""One HTTP request and its answer: reading within bounds, writing with the client's pace known."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.gateway.body_budget import BodyLease
from dataplane.gateway.connection import ARRIVAL_KEY, Arrival
from dataplane.gateway.openai_api.errors import ApiError, refuse
from dataplane.write_patience import WritePatience

JSON_TYPE = "application/json"
EVENT_STREAM_TYPE = "text/event-stream"
_RETRY_AFTER_SECONDS = 1


class ClientGoneError(Exception):
    """The client left before its request was complete."""


class Exchange:
    """Speaks for one request; `request_id` stands on every answer."""

    def __init__(
        self,
        request_id: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        write_seconds: float,
        body_lease: BodyLease,
        clock: MonotonicClock = monotonic_clock,
    ) -> None:
        self.request_id = request_id
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.arrival: Arrival = scope["state"][ARRIVAL_KEY]
        self._header_lines = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        self.headers = dict(self._header_lines)
        self.body_lease = body_lease
        """Hold it for as long as anything of the body is kept."""
        self.status: int | None = None
        """What the client was answered, once an answer began."""
        self.gave_up_reason: str | None = None
        """Why the gateway cut a client off that was still connected."""
        self._said: dict[str, str] = {}
        self._receive = receive
        self._send = send
        self._patience = WritePatience(write_seconds)
        self._clock = clock

    @property
    def is_client_gone(self) -> bool:
        """Nothing that is written from now on can be delivered."""
        return self.gave_up_reason is not None or self.arrival.connection.is_closed

    def say(self, name: str, value: str) -> None:
        """A header that the answer will have, whatever it is."""
        self._said[name] = value

    def watch(self, on_close: Callable[[], None]) -> None:
        """Call `on_close` once the client is gone."""
        self.arrival.connection.watch(on_close)

    def unwatch(self, on_close: Callable[[], None]) -> None:
        """Forget one `watch`."""
        self.arrival.connection.unwatch(on_close)

    def require_one(self, *names: str) -> None:
        """Raises ApiRefusalError for a header that is given twice and not alike: nobody knows
        which one is meant."""
        for name in names:
            if len({value for key, value in self._header_lines if key == name}) > 1:
                raise refuse(
                    f"The header '{name}' is given more than once, with different values; send "
                    f"it once.",
                    code="conflicting_headers",
                )

    async def read_body(self, max_bytes: int, timeout_seconds: float) -> bytes:
        """The whole body.

        Raises ApiRefusalError for one that is encoded (415), too large (413) or too slow (408),
        or when too many are held already (503), and ClientGoneError.
        """
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise refuse(
                f"The body is sent with content-encoding '{encoding[:64]}'; send it as it is.",
                status=415,
                code="unsupported_content_encoding",
            )
        said = self.headers.get("content-length", "")
        if said.isdecimal():  # what is only announced takes no memory yet
            _check_length(int(said[:20]), max_bytes)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._read_all(max_bytes)
        except TimeoutError:
            raise refuse(
                f"The body was not complete within {timeout_seconds:g} s.",
                status=408,
                code="request_timeout",
            ) from None

    async def _read_all(self, max_bytes: int) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            body += message.get("body", b"")
            _check_length(len(body), max_bytes)
            self.hold(len(body))
            if not message.get("more_body", False):
                return bytes(body)

    def hold(self, num_bytes: int) -> None:
        """The request keeps so many bytes of memory until its end. Raises ApiRefusalError (503)
        where all requests together keep too many."""
        if not self.body_lease.reach(num_bytes):
            raise refuse(
                "Too many large requests are being served at once; try again soon.",
                status=503,
                code="bodies_exceed_memory",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            )

    async def answer(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON_TYPE,
        headers: dict[str, str] | None = None,
    ) -> float | None:
        """A whole answer at once; as `write`."""
        length = {"content-length": str(len(body))}
        await self._start(status, content_type, length | (headers or {}))
        return await self.write(body, is_last=True)

    async def answer_nothing(self, headers: dict[str, str]) -> float | None:
        """204: headers alone; as `write`."""
        await self._start(204, None, headers)
        return await self.write(b"", is_last=True)

    async def answer_json(self, document: Any, status: int = 200) -> float | None:
        """As `answer`, of a document."""
        return await self.answer(status, msgspec.json.encode(document))

    async def answer_error(
        self, error: ApiError, headers: dict[str, str] | None = None
    ) -> float | None:
        """As `answer`, of an error."""
        headers = dict(headers or {})
        if error.retry_after_seconds is not None:
            headers["retry-after"] = str(error.retry_after_seconds)
        return await self.answer(error.status, error.encode(), headers=headers)

    async def start_stream(self) -> None:
        """Begin a streamed answer; nothing leaves before the first `write`."""
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        await self._start(200, f"{EVENT_STREAM_TYPE}; charset=utf-8", headers)

    async def _start(self, status: int, content_type: str | None, headers: dict[str, str]) -> None:
        self.status = status
        said = {"x-request-id": self.request_id} | self._said | headers
        if content_type is not None:
            said["content-type"] = content_type
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in said.items()],
            }
        )

    async def write(self, data: bytes, is_last: bool = False) -> float | None:
        """Hand one fragment over.

        Returns the seconds that the client made us wait until the kernel had all of it, or
        None when the client is gone, seen before, during or by not reading for too long.
        """
        if self.is_client_gone:
            return None
        began = self._clock()
        connection = self.arrival.connection
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})
        if connection.is_flushed and not connection.is_closed:
            return self._clock() - began
        if not await self._is_flushed():
            self.gave_up_reason = self._patience.why_gone
            connection.abort()
            return None
        # After a last fragment the server itself may close: what counts is that all had gone.
        if connection.is_closed and (not is_last or connection.error is not None):
            return None
        return self._clock() - began

    async def _is_flushed(self) -> bool:
        """Wait until the kernel has all; False when it took nothing at all for too long."""
        connection = self.arrival.connection
        num_unsent = connection.num_unsent_bytes
        while True:
            try:
                async with asyncio.timeout(self._patience.window_seconds):
                    await connection.flushed()
            except TimeoutError:
                num_before, num_unsent = num_unsent, connection.num_unsent_bytes
                if self._patience.is_gone(num_before, num_unsent):
                    return False
            else:
                return True


def _check_length(num_bytes: int, max_bytes: int) -> None:
    if num_bytes > max_bytes:
        raise refuse(
            f"The body is larger than {max_bytes} bytes.", status=413, code="request_too_large"
        )

"""The gateway's side of a replica host: one connection, many requests on it.

Events are sorted into a queue for each request as they come, so that a request whose iterator
nobody reads holds up no other: its queue is bounded, because the replica is told to give it no
steps meanwhile. When the connection drops, every open iterator raises at once.
"""

import asyncio
import dataclasses
import os
from collections.abc import AsyncGenerator

from dataplane.engine import (
    EngineCapabilities,
    EngineEvent,
    EngineRequest,
    EngineStats,
    EngineUnavailableError,
)
from dataplane.host.link import HostLink
from dataplane.host.wire import (
    PROTOCOL_VERSION,
    Cancel,
    FrameTooLargeError,
    Greeting,
    Submit,
    WireError,
)
from dataplane.lifecycle import Disposition, EventKind
from dataplane.policy import ReplicaEndpoint
from dataplane.prefix_report import PrefixReport

CONNECT_TIMEOUT_SECONDS = 5.0


class HostClient:
    """EngineClient of a replica that runs under `dataplane.host`.

    After a loss `connect` may be called again; requests never outlive their connection.
    """

    def __init__(self, endpoint: ReplicaEndpoint) -> None:
        self._endpoint = endpoint
        self._link: HostLink | None = None
        self._connecting = asyncio.Lock()

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `connect`."""
        if self._link is None:
            raise RuntimeError("capabilities are known only after connect()")
        return self._link.capabilities

    @property
    def is_connected(self) -> bool:
        """A submit would reach the replica, as far as is known now."""
        return self._link is not None and self._link.lost is None

    async def connect(self) -> None:
        """Reach the replica and make sure that it is the one. Does nothing when connected."""
        async with self._connecting:
            if not self.is_connected:
                self._link = await _open_link(self._endpoint)

    async def submit(self, request: EngineRequest) -> AsyncGenerator[EngineEvent, None]:
        """Start one attempt, sent when the first event is asked for.

        Closing the iterator before its end cancels the request.
        """
        link = self._require_link()
        events = await link.open(request.request_id)
        is_released = False
        try:
            # The host takes token ids; the client's own JSON would only cost transit.
            refusal = link.send(Submit(dataclasses.replace(request, body={})))
            if refusal is not None:
                is_released = True
                for event in _refused(refusal):
                    yield event
            while not is_released:
                if events.is_empty:
                    await events.wait()
                event = events.take()
                is_released = event.kind is EventKind.RELEASED
                yield event
        finally:
            link.close_request(request.request_id, is_released)

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        """Ask for the end of a request; its iterator goes on to FINISHED and RELEASED."""
        if self._link is not None:
            self._link.send(Cancel(request_id, disposition))

    async def pause(self, request_id: str, is_paused: bool) -> None:
        """As EnginePauser says it."""
        if self._link is not None:
            self._link.pause(request_id, is_paused)

    async def stats(self) -> EngineStats:
        """The engine's latest snapshot, with its age."""
        return await self._require_link().ask_stats()

    async def cached_prefixes(self, cursor: str | None) -> PrefixReport | None:
        """As PrefixReporter says it."""
        return await self._require_link().ask_prefixes(cursor)

    async def close(self) -> None:
        """Hang up; the host cancels what still runs for this connection."""
        if self._link is not None:
            await self._link.close()

    def _require_link(self) -> HostLink:
        if self._link is None:
            raise EngineUnavailableError(self._endpoint.replica_id, "it was never connected")
        if self._link.lost is not None:
            raise EngineUnavailableError(self._endpoint.replica_id, self._link.lost)
        return self._link


async def _open_link(endpoint: ReplicaEndpoint) -> HostLink:
    host, _, port = endpoint.address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            _, link = await loop.create_connection(
                lambda: HostLink(endpoint.replica_id), host, int(port)
            )
            try:
                await _greet(endpoint, link)
            except BaseException:
                link.abandon()
                raise
            return link
    except TimeoutError as error:
        raise EngineUnavailableError(
            endpoint.replica_id, f"no hello within {CONNECT_TIMEOUT_SECONDS:g} s"
        ) from error
    except (OSError, ValueError, WireError) as error:
        raise EngineUnavailableError(
            endpoint.replica_id, f"connecting to {endpoint.address}: {error}"
        ) from error


async def _greet(endpoint: ReplicaEndpoint, link: HostLink) -> None:
    link.send(Greeting(PROTOCOL_VERSION, client=f"pid {os.getpid()}"))
    hello = await link.hello
    if hello.protocol_version != PROTOCOL_VERSION:
        raise WireError(
            f"it speaks protocol {hello.protocol_version}, this gateway {PROTOCOL_VERSION}; "
            f"run both from one release"
        )
    if hello.replica_id != endpoint.replica_id:
        raise WireError(f"replica {hello.replica_id} answers there; the port was reused")
    if hello.fencing_token != endpoint.fencing_token:
        raise WireError(
            f"a process of another start of it answers there: its fencing token is "
            f"{hello.fencing_token}, and {endpoint.fencing_token} is the one that serves"
        )


def _refused(error: FrameTooLargeError) -> tuple[EngineEvent, EngineEvent]:
    """A request that the wire cannot carry ends before it was sent."""
    finished = EngineEvent(
        kind=EventKind.FINISHED,
        disposition=Disposition.INVALID,
        status_code=413,
        reason=f"the prompt is too large to send to a replica: {error}",
    )
    return finished, EngineEvent(kind=EventKind.RELEASED)

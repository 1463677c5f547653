"""The gateway's half of the idle engine: connected at once, and silent for ever.

It never answers how it stands, so that a gateway waits and does not ask 5,000 replicas each second:
ten of them would need cores of their own for that, and here they share one.
"""

import asyncio
from collections.abc import AsyncIterator

from dataplane.engine import (
    EngineCapabilities,
    EngineClient,
    EngineEvent,
    EngineRequest,
    EngineStats,
    EngineUnavailableError,
)
from dataplane.hooks import hookimpl
from dataplane.lifecycle import Disposition, Observability
from dataplane.policy import ReplicaEndpoint

NAME = "idle"


class IdleClient:
    """Takes no requests."""

    def __init__(self, replica_id: str) -> None:
        self._replica_id = replica_id

    @property
    def capabilities(self) -> EngineCapabilities:
        """Nothing can be seen of it."""
        return EngineCapabilities(
            engine=NAME,
            version="1",
            takes_token_ids=False,
            max_model_len=4096,
            max_num_seqs=32,
            prefill=Observability.UNOBSERVABLE,
            decode=Observability.UNOBSERVABLE,
            cleanup=Observability.UNOBSERVABLE,
            token_counts=Observability.UNOBSERVABLE,
            cached_tokens=Observability.UNOBSERVABLE,
        )

    async def connect(self) -> None:
        """There is nobody to reach."""

    def submit(self, request: EngineRequest) -> AsyncIterator[EngineEvent]:
        """Refused."""
        raise EngineUnavailableError(self._replica_id, "an idle engine takes no requests")

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        """There is never one."""

    async def stats(self) -> EngineStats:
        """Never answered."""
        never: asyncio.Future[EngineStats] = asyncio.get_running_loop().create_future()
        return await never

    async def close(self) -> None:
        """Nothing was opened."""


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    return IdleClient(endpoint.replica_id) if endpoint.engine == NAME else None

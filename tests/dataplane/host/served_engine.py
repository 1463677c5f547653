"""An engine core behind a real socket in this process, and what tests do with it."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataplane.clock import monotonic_clock
from dataplane.engine import EngineEvent, EngineRequest, ReplicaSpec
from dataplane.host.client import HostClient
from dataplane.host.core import EngineCore
from dataplane.host.engine_loop import LEAK_BOUND_SECONDS, EngineLoop
from dataplane.host.mailbox import Shutdown
from dataplane.host.metrics import HostMetrics
from dataplane.host.server import MAX_UNREAD_BYTES, HostServer
from dataplane.lifecycle import EventKind
from dataplane.policy import ReplicaEndpoint
from dataplane.tokenizer import Tokenizer

SPEC = ReplicaSpec(
    replica_id="replica-1",
    deployment="chat",
    engine="echo",
    model_name="tiny",
    model_revision="tiny@1",
    engine_config_revision="echo@1",
    artifact="",
)


def make_spec(artifact: Path, **settings: Any) -> ReplicaSpec:
    """The spec of an echo replica."""
    return dataclasses.replace(SPEC, artifact=str(artifact), settings=settings)


def endpoint_at(address: str, replica_id: str = SPEC.replica_id) -> ReplicaEndpoint:
    """Where `replica_id` is said to be."""
    return ReplicaEndpoint(replica_id=replica_id, engine=SPEC.engine, address=address)


@dataclass(slots=True)
class ServedEngine:
    """The parts of a served core."""

    server: HostServer
    engine_loop: EngineLoop
    metrics: HostMetrics
    address: str
    running: asyncio.Future[None]
    """The engine's thread."""
    _clients: list[HostClient] = field(default_factory=list)

    async def connect(self) -> HostClient:
        """One more gateway; closed with the server."""
        client = HostClient(endpoint_at(self.address))
        await client.connect()
        self._clients.append(client)
        return client

    def sample(self, name: str) -> float | None:
        """The value of a metric now."""
        return self.metrics.registry.get_sample_value(name)

    async def close(self) -> None:
        """Close clients, engine and server."""
        for client in self._clients:
            await client.close()
        self.engine_loop.commands.put(Shutdown())
        await asyncio.wait({self.running})
        await self.server.close()


@asynccontextmanager
async def serve(
    core: EngineCore,
    tokenizer: Tokenizer,
    *,
    max_unread_bytes: int = MAX_UNREAD_BYTES,
    leak_bound_seconds: float = LEAK_BOUND_SECONDS,
    fencing_token: int = 0,
) -> AsyncIterator[ServedEngine]:
    """Serve `core` until the block ends."""
    metrics = HostMetrics(SPEC)
    engine_loop = EngineLoop(
        core=core,
        tokenizer=tokenizer,
        metrics=metrics,
        clock=monotonic_clock,
        leak_bound_seconds=leak_bound_seconds,
    )
    server = HostServer(
        replica_id=SPEC.replica_id,
        capabilities=core.capabilities,
        vocab_size=tokenizer.vocab_size,
        engine_loop=engine_loop,
        clock=monotonic_clock,
        cached_prefixes=core.cached_prefixes,
        fencing_token=fencing_token,
        max_unread_bytes=max_unread_bytes,
    )
    address = await server.start("127.0.0.1")
    with ThreadPoolExecutor(max_workers=1) as thread:
        running = asyncio.get_running_loop().run_in_executor(thread, engine_loop.run, server.send)
        served = ServedEngine(server, engine_loop, metrics, address, running)
        try:
            yield served
        finally:
            await served.close()


async def collect(client: HostClient, request: EngineRequest) -> list[EngineEvent]:
    """Every event of one request."""
    return [event async for event in client.submit(request)]


def text_of(events: list[EngineEvent]) -> str:
    """What a client would have read."""
    return "".join(event.text or "" for event in events)


def find(events: list[EngineEvent], kind: EventKind) -> EngineEvent:
    """The first event of a kind."""
    return next(event for event in events if event.kind is kind)


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for something that another thread brings about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (no event tells of it)
            await asyncio.sleep(0.005)


def run(scenario: Coroutine[Any, Any, None], seconds: float = 20.0) -> None:
    """Run a scenario, within a bound."""
    asyncio.run(asyncio.wait_for(scenario, seconds))

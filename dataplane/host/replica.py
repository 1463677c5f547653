"""The life of one replica process: start, serve, then drain on SIGTERM or fail loudly.

Two threads matter: this event loop does all input and output, and one other thread owns
the engine core from its load to its last step.
"""

import asyncio
import functools
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dataplane.clock import monotonic_clock
from dataplane.engine import ReplicaSpec
from dataplane.host.engine_loop import EngineLoop
from dataplane.host.mailbox import Shutdown
from dataplane.host.metrics import HostMetrics
from dataplane.host.server import HostServer
from dataplane.host.start import StartedEngine, start_engine
from dataplane.host.status import StatusFile

LAST_STEP_TIMEOUT_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """What the process is told besides its spec."""

    host: str
    """Address to listen on."""
    drain_seconds: float
    """How long running requests may go on after SIGTERM."""


async def run_replica(spec: ReplicaSpec, status: StatusFile, settings: ReplicaSettings) -> int:
    """Returns the exit code: 0 after a drain, 1 when the start or a step failed.

    The engine's thread may still be inside a load or a step that cannot be interrupted;
    the caller ends the process without waiting for it.
    """
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # Ctrl-C in a terminal reaches the whole group; whoever started us decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopping = asyncio.create_task(stop.wait())
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
    try:
        engine = await _start(spec, status, thread, stopping)
        if engine is None:
            return 0
        return await _serve(spec, status, settings, engine, thread, stopping)
    except Exception as error:  # noqa: BLE001  (the process's edge: told by file and exit code)
        _log.exception("the replica failed")
        status.fail(f"{type(error).__name__}: {error}")
        return 1
    finally:
        stopping.cancel()
        thread.shutdown(wait=False)


async def _start(
    spec: ReplicaSpec, status: StatusFile, thread: ThreadPoolExecutor, stopping: asyncio.Task[bool]
) -> StartedEngine | None:
    """The started engine, or None when SIGTERM came first: there was nothing to drain."""
    starting = asyncio.get_running_loop().run_in_executor(thread, start_engine, spec, status)
    both: set[asyncio.Future[Any]] = {starting, stopping}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    return await starting if starting.done() else None


async def _serve(
    spec: ReplicaSpec,
    status: StatusFile,
    settings: ReplicaSettings,
    engine: StartedEngine,
    thread: ThreadPoolExecutor,
    stopping: asyncio.Task[bool],
) -> int:
    metrics = HostMetrics(spec)
    engine_loop = EngineLoop(
        core=engine.core, tokenizer=engine.tokenizer, metrics=metrics, clock=monotonic_clock
    )
    server = HostServer(
        replica_id=spec.replica_id,
        capabilities=engine.core.capabilities,
        vocab_size=engine.tokenizer.vocab_size,
        engine_loop=engine_loop,
        clock=monotonic_clock,
        cached_prefixes=engine.core.cached_prefixes,
        fencing_token=spec.fencing_token,
    )
    address = await server.start(settings.host)
    metrics_server, metrics_address = metrics.serve(settings.host)
    running = asyncio.get_running_loop().run_in_executor(
        thread, functools.partial(engine_loop.run, server.send)
    )
    status.serve(address, metrics_address)
    _log.info("serving on %s, metrics on %s", address, metrics_address)
    try:
        await _until_first(running, stopping)
        status.drain()
        _log.info("draining for at most %g s", settings.drain_seconds)
        await _until_first(running, asyncio.create_task(server.drain(settings.drain_seconds)))
        engine_loop.commands.put(Shutdown())
        await asyncio.wait({running}, timeout=LAST_STEP_TIMEOUT_SECONDS)
        return 0
    finally:
        await server.close()
        metrics_server.shutdown()


async def _until_first(running: asyncio.Future[None], awaited: asyncio.Future[Any]) -> None:
    """Wait for `awaited`. The engine loop ends by itself only by an exception, raised here."""
    both: set[asyncio.Future[Any]] = {running, awaited}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        awaited.cancel()
        await running

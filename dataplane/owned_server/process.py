"""How a replica whose engine is somebody else's server is started and proven: the half of the
contract that launchers and the operator use."""

import asyncio
import sys
from collections.abc import Callable

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import EngineUnavailableError, ReplicaSpec
from dataplane.openai_endpoint.client import EndpointClient

CreateClient = Callable[[ReplicaSpec, str], EndpointClient]
"""Of a replica, at an address. Raises ValueError."""


class OwnedServerProcess:
    """EngineProcess of an adapter, whose `module` runs one replica."""

    attaches = True

    def __init__(
        self, module: str, create_client: CreateClient, clock: MonotonicClock = monotonic_clock
    ) -> None:
        self._module = module
        self._create_client = create_client
        self._clock = clock

    def command(self, spec_path: str, status_path: str) -> tuple[str, ...]:
        """The argv of one replica, under the interpreter that runs now."""
        return (
            sys.executable, "-m", self._module, "--spec", spec_path, "--status", status_path,
        )  # fmt: skip

    async def probe(self, spec: ReplicaSpec, address: str, timeout_seconds: float) -> float:
        """Generate one token, with the key that the server was given. Raises ValueError as well,
        when that cannot be had."""
        started = self._clock()
        client = self._create_client(spec, address)
        try:
            async with asyncio.timeout(timeout_seconds):
                await client.prove()
        except TimeoutError as error:
            raise EngineUnavailableError(
                spec.replica_id, f"no token within {timeout_seconds:g} s"
            ) from error
        finally:
            await client.close()
        return self._clock() - started

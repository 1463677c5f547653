"""How a replica whose engine is somebody else's server is started and proven: the half of the
contract that launchers and the operator use."""

import asyncio
import sys
from collections.abc import Callable

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import EngineUnavailableError
from dataplane.openai_endpoint.client import EndpointClient

CreateProbe = Callable[[str, str], EndpointClient]
"""For a replica id and an address."""


class OwnedServerProcess:
    """EngineProcess of an adapter, whose `module` runs one replica."""

    attaches = True

    def __init__(
        self, module: str, create_probe: CreateProbe, clock: MonotonicClock = monotonic_clock
    ) -> None:
        self._module = module
        self._create_probe = create_probe
        self._clock = clock

    def command(self, spec_path: str, status_path: str) -> tuple[str, ...]:
        """The argv of one replica, under the interpreter that runs now."""
        return (
            sys.executable, "-m", self._module, "--spec", spec_path, "--status", status_path,
        )  # fmt: skip

    async def probe(self, replica_id: str, address: str, timeout_seconds: float) -> float:
        """Generate one token."""
        started = self._clock()
        client = self._create_probe(replica_id, address)
        try:
            async with asyncio.timeout(timeout_seconds):
                await client.prove()
        except TimeoutError as error:
            raise EngineUnavailableError(
                replica_id, f"no token within {timeout_seconds:g} s"
            ) from error
        finally:
            await client.close()
        return self._clock() - started

"""How a replica under `dataplane.host` is started and proven: the half of the contract that
launchers and the operator use. Nothing here imports an engine."""

import asyncio
import contextlib
import sys
import uuid

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import EngineRequest, EngineUnavailableError, ReplicaSpec, SamplingParams
from dataplane.host.client import HostClient
from dataplane.lifecycle import EventKind
from dataplane.policy import ReplicaEndpoint

_PROBE_TOKEN_ID = 0  # every vocabulary has it


class HostProcess:
    """EngineProcess of an engine whose core runs under `dataplane.host`."""

    attaches = False

    def __init__(self, engine: str, clock: MonotonicClock = monotonic_clock) -> None:
        self._engine = engine
        self._clock = clock

    def command(self, spec_path: str, status_path: str) -> tuple[str, ...]:
        """The argv of one replica, under the interpreter that runs now."""
        return (
            sys.executable, "-m", "dataplane.host", "--spec", spec_path, "--status", status_path,
        )  # fmt: skip

    async def probe(self, spec: ReplicaSpec, address: str, timeout_seconds: float) -> float:
        """Generate one token from a prompt that shares no prefix cache, until it is released."""
        replica_id = spec.replica_id
        client = HostClient(
            ReplicaEndpoint(
                replica_id=replica_id,
                engine=self._engine,
                address=address,
                fencing_token=spec.fencing_token,
            )
        )
        started = self._clock()
        try:
            async with asyncio.timeout(timeout_seconds):
                await client.connect()
                await self._generate(client, replica_id)
        except TimeoutError as error:
            raise EngineUnavailableError(
                replica_id, f"no token within {timeout_seconds:g} s"
            ) from error
        finally:
            await client.close()
        return self._clock() - started

    async def _generate(self, client: HostClient, replica_id: str) -> None:
        async with contextlib.aclosing(client.submit(_probe_request())) as stream:
            events_by_kind = {event.kind: event async for event in stream}
        if EventKind.FIRST_TOKEN not in events_by_kind:
            finished = events_by_kind[EventKind.FINISHED]
            raise EngineUnavailableError(
                replica_id, f"it selected no token: {finished.disposition}, {finished.reason}"
            )


def _probe_request() -> EngineRequest:
    probe_id = f"probe-{uuid.uuid4().hex}"
    return EngineRequest(
        request_id=probe_id,
        attempt=0,
        endpoint="/v1/completions",
        sampling=SamplingParams(max_output_tokens=1, temperature=0.0, ignore_eos=True),
        prompt_token_ids=(_PROBE_TOKEN_ID,),
        isolation_key=probe_id,
    )

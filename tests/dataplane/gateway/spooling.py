"""Spools that run in a test, who takes their records, and what is left on disk."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from dataplane.gateway.spool import RecordSpool
from dataplane.record import RequestRecord
from tests.dataplane.golden_request import golden_record

GATEWAY = "gateway-0-a"


def spooled_record(sequence: int, gateway_id: str = GATEWAY) -> RequestRecord:
    return golden_record(
        gateway_id=gateway_id, gateway_sequence=sequence, request_id=f"request-{sequence}"
    )


class ControlPlane:
    """Takes batches as the control plane does, and can be away or refuse."""

    def __init__(self) -> None:
        self.is_away = False
        self.status = 503
        """What is answered while it is away."""
        self.poison: set[int] = set()
        """Sequence numbers it refuses with 422."""
        self.batches: list[dict[str, Any]] = []
        self.num_calls = 0

    async def send(self, body: bytes) -> None:
        self.num_calls += 1
        await asyncio.sleep(0)
        if self.is_away:
            self._refuse(self.status)
        batch = json.loads(body)
        if self.poison & {record["gateway_sequence"] for record in batch["records"]}:
            self._refuse(422)
        self.batches.append(batch)

    def _refuse(self, status: int) -> None:
        request = httpx.Request("POST", "http://control-plane/api/v1/records")
        raise httpx.HTTPStatusError(
            f"{status}", request=request, response=httpx.Response(status, request=request)
        )

    def stored(self, gateway_id: str = GATEWAY) -> list[int]:
        """Sequence numbers, in the order they came."""
        return [
            record["gateway_sequence"]
            for batch in self.batches
            if batch["gateway_id"] == gateway_id
            for record in batch["records"]
        ]


@contextlib.asynccontextmanager
async def running_spool(spool: RecordSpool) -> AsyncIterator[RecordSpool]:
    task = asyncio.create_task(spool.run())
    try:
        yield spool
    finally:
        task.cancel()
        await asyncio.wait({task})
        spool.close()


async def until_empty(spool: RecordSpool, timeout_seconds: float = 5.0) -> None:
    async with asyncio.timeout(timeout_seconds):
        while spool.num_spooled:  # noqa: ASYNC110 - the spool tells nobody when it is empty
            await asyncio.sleep(0.005)


def left_in(directory: Path) -> list[Path]:
    return list(directory.rglob("*"))

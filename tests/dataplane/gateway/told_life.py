"""What a record and a stream tell of a request's life."""

import json
from typing import Any

import httpx

from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.record import RequestRecord


def kinds(record: RequestRecord) -> list[EventKind]:
    return [event.kind for event in record.events]


def end_of(record: RequestRecord) -> tuple[Disposition, Delivery, int | None]:
    return record.disposition, record.delivery, record.status_code


async def read_stream(response: httpx.Response) -> list[dict[str, Any] | str]:
    """Every event's data, decoded, but for the end mark."""
    lines = [line async for line in response.aiter_lines() if line]
    data = [line.removeprefix("data: ") for line in lines]
    return [item if item == "[DONE]" else json.loads(item) for item in data]

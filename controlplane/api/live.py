"""Requests in flight, asked from the gateways that have them: nobody else knows them yet."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx
import msgspec
from starlette.concurrency import run_in_threadpool

from controlplane.operator.observed import ObservedState
from dataplane.report import GatewayReport

_TIMEOUT_SECONDS = 1.0
_MAX_GATEWAYS = 64
_MAX_ANSWER_BYTES = 8 * 2**20


class _TooLongError(Exception):
    """A gateway answers with more than any has in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRequest:
    """One request in flight. None: not known yet."""

    request_id: str
    trace_id: str
    state: str
    age_seconds: float
    waits_for: str
    queue_position: int | None = None
    """Its place in its deployment's queue at its gateway, 1 for the next; None outside of it. To
    who sees one tenant alone: among that tenant's."""
    queue_age_seconds: float | None = None
    """Since it took that place; None outside of the queue, and of a gateway that does not tell."""
    tenant: str | None = None
    request_class: str | None = None
    deployment: str | None = None
    replica_id: str | None = None
    num_prompt_tokens: int | None = None
    num_output_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGateway:
    """What one gateway answered."""

    name: str
    at_unix_ns: int | None
    error: str | None
    """Why it did not answer; its requests are then missing from the list."""
    num_requests: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRequests:
    """Every request in flight that a gateway answered for, the oldest first."""

    gateways: list[LiveGateway]
    requests: list[LiveRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    at_unix_ns: int
    requests: list[LiveRequest]


async def ask_gateways(
    observed: ObservedState,
    find_key: Callable[[str], str] | None = None,
    only_tenant: str | None = None,
) -> LiveRequests:
    """Ask every gateway that ever reported, all at once; silence is an answer too.

    `find_key` blocks, and gives the key that opens the gateway of a name, and no other. With
    `only_tenant`, nothing is told of anybody else's, and no number that counts them.
    """
    reports = [report for report, _ in observed.gateways()][:_MAX_GATEWAYS]
    async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
        answers = await asyncio.gather(*(_ask(http, report, find_key) for report in reports))
    if only_tenant is not None:
        answers = [
            (replace(gateway, num_requests=None), within(only_tenant, requests))
            for gateway, requests in answers
        ]
    return LiveRequests(
        gateways=[gateway for gateway, _ in answers],
        requests=sorted(
            (request for _, requests in answers for request in requests),
            key=lambda request: -request.age_seconds,
        ),
    )


def within(tenant: str, requests: list[LiveRequest]) -> list[LiveRequest]:
    """Those of `tenant` at one gateway, whose places in each queue are counted among them."""
    own = [request for request in requests if request.tenant == tenant]
    waiting = [each for each in own if each.queue_position is not None]
    waiting.sort(key=lambda each: each.queue_position or 0)
    place_by_id: dict[str, int] = {}
    num_by_deployment: Counter[str | None] = Counter()
    for each in waiting:
        num_by_deployment[each.deployment] += 1
        place_by_id[each.request_id] = num_by_deployment[each.deployment]
    return [replace(each, queue_position=place_by_id.get(each.request_id)) for each in own]


async def _ask(
    http: httpx.AsyncClient, report: GatewayReport, find_key: Callable[[str], str] | None
) -> tuple[LiveGateway, list[LiveRequest]]:
    headers = {}
    if find_key is not None:
        headers["authorization"] = f"Bearer {await run_in_threadpool(find_key, report.name)}"
    try:
        data = await _read(http, f"{report.address}/internal/requests", headers)
        answer = msgspec.json.decode(data, type=_Answer)
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError, _TooLongError) as error:
        why = str(error) or type(error).__name__
        return LiveGateway(name=report.name, at_unix_ns=None, error=why, num_requests=None), []
    gateway = LiveGateway(
        name=report.name,
        at_unix_ns=answer.at_unix_ns,
        error=None,
        num_requests=len(answer.requests),
    )
    return gateway, answer.requests


async def _read(http: httpx.AsyncClient, url: str, headers: dict[str, str]) -> bytes:
    """Whoever answers there, they cannot fill the memory."""
    data = bytearray()
    async with http.stream("GET", url, headers=headers) as response:
        response.raise_for_status()
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > _MAX_ANSWER_BYTES:
                raise _TooLongError(f"it answers with more than {_MAX_ANSWER_BYTES} bytes")
    return bytes(data)

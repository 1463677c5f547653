"""Requests in flight, asked from the gateways that have them: nobody else knows them yet."""

import asyncio
from dataclasses import dataclass, replace
from typing import Self

import httpx
import msgspec

from controlplane.operator.observed import ObservedState
from dataplane.report import GatewayReport

_TIMEOUT_SECONDS = 1.0
_MAX_GATEWAYS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRequest:
    """One request in flight. None: not known yet."""

    request_id: str
    trace_id: str
    state: str
    age_seconds: float
    waits_for: str
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

    def within(self, tenant: str | None) -> Self:
        """What belongs to `tenant`, and no count of anything else; None: all of it."""
        if tenant is None:
            return self
        return replace(
            self,
            gateways=[replace(gateway, num_requests=None) for gateway in self.gateways],
            requests=[request for request in self.requests if request.tenant == tenant],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    at_unix_ns: int
    requests: list[LiveRequest]


async def ask_gateways(observed: ObservedState, key: str | None = None) -> LiveRequests:
    """Ask every gateway that ever reported, all at once; silence is an answer too.

    `key` is the control plane's own, for gateways that ask who is calling.
    """
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    reports = [report for report, _ in observed.gateways()][:_MAX_GATEWAYS]
    async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, headers=headers) as http:
        answers = await asyncio.gather(*(_ask(http, report) for report in reports))
    return LiveRequests(
        gateways=[gateway for gateway, _ in answers],
        requests=sorted(
            (request for _, requests in answers for request in requests),
            key=lambda request: -request.age_seconds,
        ),
    )


async def _ask(
    http: httpx.AsyncClient, report: GatewayReport
) -> tuple[LiveGateway, list[LiveRequest]]:
    try:
        response = await http.get(f"{report.address}/internal/requests")
        response.raise_for_status()
        answer = msgspec.json.decode(response.content, type=_Answer)
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as error:
        why = str(error) or type(error).__name__
        return LiveGateway(name=report.name, at_unix_ns=None, error=why, num_requests=None), []
    gateway = LiveGateway(
        name=report.name,
        at_unix_ns=answer.at_unix_ns,
        error=None,
        num_requests=len(answer.requests),
    )
    return gateway, answer.requests

"""From an exchange to a call that was read and checked, all but its length.

Cheap limits first; tokenizing comes later (see `counting`), since who is refused anyway need not
be counted. What a call may hold depends on the deployment that serves it: its engines take the
parameters, its length bounds the prompt.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataplane.enforced_snapshot import EnforcedSnapshot
from dataplane.gateway.arms import take_arm
from dataplane.gateway.callers import DEFAULT_TENANT, PROBE_TENANT, TENANT_HEADER, name_tenant
from dataplane.gateway.exchange import Exchange
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.openai_api.bodies import read_beside
from dataplane.gateway.openai_api.documents import (
    Document,
    check_prompt_length,
    find_model,
    read_document,
)
from dataplane.gateway.openai_api.errors import refuse
from dataplane.gateway.openai_api.sampling import check_choices
from dataplane.gateway.prompts import prompt_text
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.status import PROBE_HEADER
from dataplane.policy import DeploymentPolicy, Snapshot, TenantPolicy

_MAX_HASHED_ON_LOOP = 64 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall:
    """A request that was read and checked, under one snapshot; nobody has counted its prompt."""

    enforced: EnforcedSnapshot
    tenant: TenantPolicy
    deployment: DeploymentPolicy
    kind: type[Document]
    document: Document
    needs: frozenset[str]
    """Parameters that the engine must take."""
    body: Mapping[str, Any]
    fingerprint: bytes | None = None
    """Of its body; None: its policy does not ask whether the same one comes again."""


async def receive(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, kind: type[Document]
) -> ReadCall:
    """Read a request, and note in it what comes to light on the way. Raises ApiRefusalError and
    ClientGoneError."""
    settings = gateway.settings
    exchange.require_one("authorization", TENANT_HEADER)
    # Only a known name is recorded: counts by tenant must not grow with what callers invent.
    request.tenant_name = _tenant_of(gateway, exchange, gateway.enforced.snapshot).name
    raw = await exchange.read_body(settings.max_body_bytes, settings.body_seconds)
    parsed = await read_beside(raw)
    body = parsed.value
    exchange.hold(len(raw) + parsed.num_bytes)
    # A body may take its time: what counts is what is enforced when it is there.
    enforced, snapshot = gateway.enforced, gateway.enforced.snapshot
    request.snapshot_version = snapshot.version
    request.model = find_model(body)
    request.tenant = tenant = _tenant_of(gateway, exchange, snapshot)
    named = _find_deployment(snapshot, request.model)
    deployment = take_arm(gateway, exchange, request, snapshot, named, body)
    request.deployment = deployment
    document, needs = _check(gateway, deployment, kind, body)
    _note_document(request, document)
    return ReadCall(
        enforced=enforced,
        tenant=tenant,
        deployment=deployment,
        kind=kind,
        document=document,
        needs=needs,
        body=body,
        fingerprint=await _fingerprint(raw, deployment),
    )


def read_for(gateway: Gateway, call: ReadCall, deployment: DeploymentPolicy) -> ReadCall:
    """The same call for another deployment. Raises ApiRefusalError where that one cannot serve
    it."""
    document, needs = _check(gateway, deployment, call.kind, call.body)
    return ReadCall(
        enforced=call.enforced,
        tenant=call.tenant,
        deployment=deployment,
        kind=call.kind,
        document=document,
        needs=needs,
        body=call.body,
        fingerprint=call.fingerprint,
    )


def _check(
    gateway: Gateway,
    deployment: DeploymentPolicy,
    kind: type[Document],
    body: Mapping[str, Any],
) -> tuple[Document, frozenset[str]]:
    """The document, and the parameters that its engine must take."""
    check_prompt_length(body, gateway.fleet.max_model_len_of(deployment))
    read = read_document(kind, body, gateway.fleet.takes_of(deployment))
    check_choices(
        read.document, gateway.settings.max_choices, deployment.policy.max_active_per_replica
    )
    return read.document, read.needs


def _note_document(request: InFlightRequest, document: Document) -> None:
    request.lifecycle.expect_sequences(document.num_choices)
    request.is_stream = bool(document.stream)
    if request.tenant is not None and request.tenant.records_content:
        request.prompt_text = prompt_text(document)
        request.output_parts = {}


async def _fingerprint(raw: bytes, deployment: DeploymentPolicy) -> bytes | None:
    overload = deployment.policy.overload
    if overload is None or overload.retry_budget is None:
        return None
    if len(raw) <= _MAX_HASHED_ON_LOOP:
        return _hash(raw)
    return await asyncio.to_thread(_hash, raw)


def _hash(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def _tenant_of(gateway: Gateway, exchange: Exchange, snapshot: Snapshot) -> TenantPolicy:
    if gateway.is_probe(exchange.headers.get(PROBE_HEADER, "")):
        return TenantPolicy(name=PROBE_TENANT)
    enforced, auth = gateway.enforced, gateway.settings.auth
    name = name_tenant(auth, enforced.keys, exchange.headers, gateway.wall_clock())
    return _find_tenant(snapshot, name)


def _find_tenant(snapshot: Snapshot, name: str) -> TenantPolicy:
    tenant = snapshot.find_tenant(name)
    if tenant is not None:
        return tenant
    if name == DEFAULT_TENANT:
        return TenantPolicy(name=DEFAULT_TENANT)
    raise refuse(
        f"No tenant is called '{name}' (header {TENANT_HEADER}).",
        status=403,
        code="unknown_tenant",
    )


def _find_deployment(snapshot: Snapshot, model: str) -> DeploymentPolicy:
    deployment = snapshot.find_deployment(model)
    if deployment is None:
        raise refuse(
            f"The model '{model}' does not exist.",
            status=404,
            param="model",
            code="model_not_found",
        )
    if deployment.is_observed_only:
        raise refuse(
            f"'{model}' is only observed by Pilothouse: no request for it passes through this "
            f"gateway. Send it to the address that it is served at.",
            status=404,
            param="model",
            code="observed_only",
        )
    return deployment

"""From an exchange to a call that was read, checked and counted.

Cheap limits first, tokenizing last. What a call holds depends on the deployment that serves it:
its tokenizer counts the prompt, its length bounds the answer, its engines take the parameters. A
call that is to be served by another deployment is read for that one anew.
"""

import asyncio
import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataplane.enforced_snapshot import EnforcedSnapshot
from dataplane.gateway.callers import DEFAULT_TENANT, TENANT_HEADER, name_tenant
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
from dataplane.gateway.openai_api.sampling import bound_answer, check_choices, check_vocabulary
from dataplane.gateway.prompts import CountedPrompt, TokenizerError, prompt_text
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.routing_requests import hash_prompt
from dataplane.gateway.status import PROBE_HEADER
from dataplane.lifecycle import EventKind, Observability
from dataplane.policy import DeploymentPolicy, Snapshot, TenantPolicy

PROBE_TENANT = "_pilothouse"
"""Whose the probes are. No Tenant document can have this name, and no client can be it."""
_MAX_HASHED_ON_LOOP = 64 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that was read, checked and counted, all under one snapshot."""

    enforced: EnforcedSnapshot
    tenant: TenantPolicy
    deployment: DeploymentPolicy
    kind: type[Document]
    document: Document
    needs: frozenset[str]
    """Parameters that the engine must take."""
    body: Mapping[str, Any]
    prompt: CountedPrompt
    max_output_tokens: int
    prompt_blocks: tuple[bytes, ...] = ()
    """Hashes of its prompt, where its deployment is routed by them."""
    fingerprint: bytes | None = None
    """Of its body; None: its policy does not ask whether the same one comes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    document: Document
    needs: frozenset[str]
    prompt: CountedPrompt
    max_output_tokens: int
    prompt_blocks: tuple[bytes, ...]


async def receive(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, kind: type[Document]
) -> Call:
    """The call of a request, and what is known of it noted. Raises ApiRefusalError and
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
    request.deployment = deployment = _find_deployment(snapshot, request.model)
    read = await _read_for(gateway, deployment, kind, body, tenant, request)
    call = Call(
        enforced=enforced,
        tenant=tenant,
        deployment=deployment,
        kind=kind,
        document=read.document,
        needs=read.needs,
        body=body,
        prompt=read.prompt,
        max_output_tokens=read.max_output_tokens,
        prompt_blocks=read.prompt_blocks,
        fingerprint=await _fingerprint(raw, deployment),
    )
    note_count(request, call)
    request.apply(
        EventKind.RECEIVED,
        num_tokens=read.prompt.num_tokens,
        observability=read.prompt.observability,
    )
    return call


async def receive_for(gateway: Gateway, call: Call, deployment: DeploymentPolicy) -> Call:
    """The same call for another deployment. Raises ApiRefusalError where that one cannot serve
    it."""
    read = await _read_for(gateway, deployment, call.kind, call.body, call.tenant, None)
    return dataclasses.replace(
        call,
        deployment=deployment,
        document=read.document,
        needs=read.needs,
        prompt=read.prompt,
        max_output_tokens=read.max_output_tokens,
        prompt_blocks=read.prompt_blocks,
    )


def note_count(request: InFlightRequest, call: Call) -> None:
    """What was counted of a call belongs to its request's record."""
    request.deployment = call.deployment
    request.num_prompt_tokens = call.prompt.num_tokens
    request.prompt_tokens_observability = call.prompt.observability
    request.max_output_tokens = call.max_output_tokens


async def _read_for(
    gateway: Gateway,
    deployment: DeploymentPolicy,
    kind: type[Document],
    body: Mapping[str, Any],
    tenant: TenantPolicy,
    request: InFlightRequest | None,
) -> _Read:
    """`request` is told what comes to light on the way; None: it was told before."""
    settings = gateway.settings
    max_model_len = gateway.fleet.max_model_len_of(deployment)
    check_prompt_length(body, max_model_len)
    read = read_document(kind, body, gateway.fleet.takes_of(deployment))
    document = read.document
    check_choices(document, settings.max_choices, deployment.policy.max_active_per_replica)
    if request is not None:
        _note_document(request, document)
    prompt = await _count(gateway, document, deployment, max_model_len)
    check_vocabulary(document, prompt.vocab_size)
    if request is not None:  # also of one whose answer turns out to be too long
        request.num_prompt_tokens = prompt.num_tokens
        request.prompt_tokens_observability = prompt.observability
    limit = _limit_output(
        prompt, document.output_limit, max_model_len, settings.default_output_tokens
    )
    router = gateway.fleet.queue_of(deployment.name).router
    return _Read(
        document=document,
        needs=read.needs,
        prompt=prompt,
        prompt_blocks=await hash_prompt(router, prompt, tenant.name),
        max_output_tokens=bound_answer(document, limit, settings.max_answer_values),
    )


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
    return deployment


async def _count(
    gateway: Gateway,
    document: Document,
    deployment: DeploymentPolicy,
    max_model_len: int | None,
) -> CountedPrompt:
    try:
        prompt = await gateway.prompts.count(document, deployment.tokenizer_artifact, max_model_len)
    except TokenizerError as error:
        raise refuse(str(error), status=503, code="tokenizer_unavailable") from error
    if prompt.num_tokens == 0:
        raise refuse("The prompt is empty.", param="prompt", code="invalid_value")
    return prompt


def _limit_output(
    prompt: CountedPrompt, wanted: int | None, max_model_len: int | None, default: int
) -> int:
    """How many tokens may be generated. Raises ApiRefusalError when they cannot fit."""
    if max_model_len is None:
        return wanted or default
    if prompt.observability is not Observability.OBSERVED:
        # A guess refuses nobody and fills nothing up: it leaves the endpoint half its length.
        return wanted or min(default, max(1, max_model_len // 2))
    room = max_model_len - prompt.num_tokens
    if room < (wanted or 1):
        raise refuse(
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {prompt.num_tokens + (wanted or 1)} tokens ({prompt.num_tokens} in the "
            f"prompt, {wanted or 1} in the completion). Please shorten either.",
            code="context_length_exceeded",
        )
    return wanted or room

"""The one path every request takes, from its first byte until its record is written.

    arrived -> received -> admitted -> (queued) -> submitted ... finished -> released -> record
                  |           |
               invalid     rejected

Where keys are required, a call without a valid one never arrives: endpoints.py answers and
counts it, and nothing else is kept of it.

From admission on two sides run beside each other: the engine side (queue, attempts, drain to
released) and the client side (delivery at the client's pace). They meet in the Output, and
neither waits for the other: a client that leaves makes the engine side end early, and the
request stays here until the engine has released what it held.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataplane.admission import (
    Admitted,
    EnforcedSnapshot,
    QueueLoad,
    Rejected,
    RejectionKind,
    RequestFacts,
    admit,
)
from dataplane.engine import EngineRequest
from dataplane.gateway.callers import DEFAULT_TENANT, TENANT_HEADER, name_tenant
from dataplane.gateway.client_side import ClientSide
from dataplane.gateway.engine_side import EngineSide
from dataplane.gateway.exchange import ClientGoneError, Exchange
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.openai_api.answers import AnswerShape
from dataplane.gateway.openai_api.bodies import read_beside
from dataplane.gateway.openai_api.documents import (
    Document,
    check_prompt_length,
    find_model,
    read_document,
)
from dataplane.gateway.openai_api.errors import ApiError, ApiRefusalError, refuse
from dataplane.gateway.openai_api.sampling import (
    bound_answer,
    check_choices,
    check_vocabulary,
    sampling_of,
)
from dataplane.gateway.output import Output
from dataplane.gateway.prompts import CountedPrompt, TokenizerError, prompt_text
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.status import PROBE_HEADER
from dataplane.lifecycle import Delivery, Disposition, EventKind, Observability
from dataplane.logs import request_context
from dataplane.policy import DeploymentPolicy, Snapshot, TenantPolicy
from dataplane.queue_demand import QueueDemand
from dataplane.telemetry import traceparent_of

PROBE_TENANT = "_pilothouse"
"""Whose the probes are. No Tenant document can have this name, and no client can be it."""
# Never shown to a policy's expressions: a class must not depend on a secret.
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", PROBE_HEADER})

# 429 is kept for a caller over its own limits; a service that is short of capacity says 503.
_STATUS_BY_REJECTION = {
    RejectionKind.DRAINING: 503,
    RejectionKind.NO_REPLICA: 503,
    RejectionKind.NO_CLASS: 403,
    RejectionKind.QUEUE_FULL: 503,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A request that was read, checked and counted, all under one snapshot."""

    enforced: EnforcedSnapshot
    tenant: TenantPolicy
    deployment: DeploymentPolicy
    document: Document
    needs: frozenset[str]
    """Parameters that the engine must take."""
    body: Mapping[str, Any]
    prompt: CountedPrompt
    max_output_tokens: int


async def handle(gateway: Gateway, exchange: Exchange, kind: type[Document]) -> None:
    """Take one request through."""
    request = gateway.open(exchange)
    with exchange.body_lease, request_context(request.request_id, request.trace.trace_id):
        try:
            await _pass(gateway, exchange, request, kind)
        except Exception:
            # A bug of ours: the caller gets an answer, the log the reason.
            if exchange.status is None:
                error = ApiError(status=500, message="The gateway failed.", code="internal_error")
                await exchange.answer_error(error)
            raise
        finally:
            await gateway.close(request, exchange)


async def _pass(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, kind: type[Document]
) -> None:
    try:
        call = await _receive(gateway, exchange, request, kind)
    except ApiRefusalError as refusal:
        await _refuse(exchange, request, EventKind.INVALID, refusal.error)
        return
    except ClientGoneError:
        reason = "the client left before its request was complete"
        request.apply(EventKind.INVALID, reason=reason)
        request.apply(EventKind.LAST_WRITE, delivery=Delivery.NONE)
        return
    decision = _decide(gateway, exchange, request, call)
    if isinstance(decision, Rejected):
        await _refuse(exchange, request, EventKind.REJECTED, _error_of(decision))
        return
    await _serve(gateway, exchange, request, call, decision)


async def _receive(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, kind: type[Document]
) -> _Call:
    """Cheap limits first, tokenizing last. Raises ApiRefusalError and ClientGoneError."""
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
    max_model_len = gateway.fleet.max_model_len_of(deployment)
    check_prompt_length(body, max_model_len)
    read = read_document(kind, body, gateway.fleet.takes_of(deployment))
    document = read.document
    check_choices(document, settings.max_choices, deployment.policy.max_active_per_replica)
    request.lifecycle.expect_sequences(document.num_choices)
    request.is_stream = bool(document.stream)
    if tenant.records_content:
        request.prompt_text = prompt_text(document)
        request.output_parts = {}
    prompt = await _count(gateway, document, deployment, max_model_len)
    check_vocabulary(document, prompt.vocab_size)
    request.num_prompt_tokens = prompt.num_tokens
    request.prompt_tokens_observability = prompt.observability
    limit = _limit_output(
        prompt, document.output_limit, max_model_len, settings.default_output_tokens
    )
    request.max_output_tokens = limit = bound_answer(document, limit, settings.max_answer_values)
    request.apply(
        EventKind.RECEIVED, num_tokens=prompt.num_tokens, observability=prompt.observability
    )
    return _Call(
        enforced=enforced,
        tenant=tenant,
        deployment=deployment,
        document=document,
        needs=read.needs,
        body=body,
        prompt=prompt,
        max_output_tokens=limit,
    )


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


def _decide(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, call: _Call
) -> Admitted | Rejected:
    queue = gateway.fleet.queue_of(call.deployment.name)
    decision = admit(
        call.enforced.policy_of(call.deployment),
        call.tenant,
        RequestFacts(
            model=request.model or "",
            stream=request.is_stream,
            num_prompt_tokens=call.prompt.num_tokens,
            max_output_tokens=call.max_output_tokens,
            headers={k: v for k, v in exchange.headers.items() if k not in _SECRET_HEADERS},
        ),
        QueueLoad(
            num_waiting_by_class=queue.num_waiting_by_class(),
            has_free_slot=queue.has_room_for(call.document.num_choices),
            num_replicas=len(call.deployment.replicas),
            is_draining=gateway.is_draining,
        ),
    )
    request.policy_revision = decision.policy_revision
    if decision.request_class is not None:
        request.request_class = decision.request_class.name
    return decision


async def _serve(
    gateway: Gateway,
    exchange: Exchange,
    request: InFlightRequest,
    call: _Call,
    decision: Admitted,
) -> None:
    request.apply(EventKind.ADMITTED)
    request.on_progress()
    output = Output()
    engine_side = EngineSide(
        request=request,
        request_class=decision.request_class,
        demand=_demand(exchange, call),
        template=_submission(request, call),
        queue=gateway.fleet.queue_of(call.deployment.name),
        fleet=gateway.fleet,
        output=output,
        release_seconds=gateway.settings.release_seconds,
        needs=call.needs,
    )
    client_side = ClientSide(
        request=request, exchange=exchange, shape=_shape(request, call), output=output
    )
    engine_side.enter_queue()
    engine_task = asyncio.create_task(engine_side.run(), name=f"engine side {request.request_id}")
    with gateway.ending_with(engine_side.cancel):
        try:
            if not await client_side.deliver():
                why = exchange.gave_up_reason or "the client left"
                engine_side.cancel(Disposition.CANCELLED, why)
        except BaseException:
            engine_side.cancel(Disposition.ERROR, "the gateway failed")
            raise
        finally:
            try:
                await _outlast(engine_task)
            finally:
                engine_side.close()
            client_side.close_delivery()


async def _outlast(task: "asyncio.Task[None]") -> None:
    """Wait for the engine side even when this request's own task is being cancelled."""
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
    task.result()


def _submission(request: InFlightRequest, call: _Call) -> EngineRequest:
    return EngineRequest(
        request_id=request.request_id,
        attempt=0,
        endpoint=request.endpoint,
        sampling=sampling_of(call.document, call.max_output_tokens),
        prompt_token_ids=call.prompt.token_ids,
        body=call.body,
        is_stream=request.is_stream,
        isolation_key=call.tenant.name,
        traceparent=traceparent_of(request.trace),
    )


def _demand(exchange: Exchange, call: _Call) -> QueueDemand:
    """What it asks of the queue."""
    num_sequences = call.document.num_choices
    num_tokens = call.prompt.num_tokens + num_sequences * call.max_output_tokens
    return QueueDemand(
        num_slots=num_sequences,
        tenant=call.tenant.name,
        weight=call.deployment.policy.limits_of(call.tenant.name).weight,
        num_tokens=num_tokens,
        num_expected_tokens=num_tokens,
        num_bytes=exchange.body_lease.num_bytes,
    )


def _shape(request: InFlightRequest, call: _Call) -> AnswerShape:
    options = call.document.stream_options
    return AnswerShape(
        endpoint=request.endpoint,
        request_id=request.request_id,
        model=call.document.model,
        created_at_unix=request.arrival.at_unix_ns // 10**9,
        fingerprint=call.deployment.model_revision,
        includes_usage=bool(options and options.include_usage),
        num_choices=call.document.num_choices,
        includes_logprobs=call.document.num_logprobs is not None,
    )


async def _refuse(
    exchange: Exchange, request: InFlightRequest, kind: EventKind, error: ApiError
) -> None:
    """The end of a request that never reached a queue, and its answer."""
    request.apply(kind, reason=error.message)
    waited = await exchange.answer_error(error)
    request.apply(EventKind.LAST_WRITE, delivery=Delivery.NONE, waited_seconds=waited)


def _error_of(rejected: Rejected) -> ApiError:
    return ApiError(
        status=_STATUS_BY_REJECTION[rejected.kind],
        message=f"Rejected: {rejected.reason}.",
        code=rejected.kind,
        retry_after_seconds=rejected.retry_after_seconds,
    )

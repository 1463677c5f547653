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
import dataclasses

from dataplane.admission.admit import Rejected
from dataplane.backlog import Backlog
from dataplane.engine import EngineRequest
from dataplane.gateway.admitting import Entry, enter, error_of, refuse_uncounted
from dataplane.gateway.client_side import ClientSide
from dataplane.gateway.counting import Call, count, count_for
from dataplane.gateway.engine_side import EngineSide, Lane, StandIn
from dataplane.gateway.exchange import ClientGoneError, Exchange
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.openai_api.answers import AnswerShape
from dataplane.gateway.openai_api.documents import (
    Document,
)
from dataplane.gateway.openai_api.errors import ApiError, ApiRefusalError
from dataplane.gateway.openai_api.sampling import (
    sampling_of,
)
from dataplane.gateway.output import Output
from dataplane.gateway.receiving import receive
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.routing_requests import routing_request
from dataplane.lifecycle import CLIENT_LEFT, Delivery, Disposition, EventKind
from dataplane.logs import request_context
from dataplane.queueing.demand import QueueDemand
from dataplane.telemetry import traceparent_of


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
        read = await receive(gateway, exchange, request, kind)
        if rejected := refuse_uncounted(gateway, exchange, request, read):
            request.apply(EventKind.RECEIVED)
            await _refuse(exchange, request, EventKind.REJECTED, error_of(rejected))
            return
        call = await count(gateway, request, read)
    except ApiRefusalError as refusal:
        await _refuse(exchange, request, EventKind.INVALID, refusal.error)
        return
    except ClientGoneError:
        reason = "the client left before its request was complete"
        request.apply(EventKind.INVALID, reason=reason)
        request.apply(EventKind.LAST_WRITE, delivery=Delivery.NONE)
        return
    entry = await enter(gateway, exchange, request, call)
    if isinstance(entry, Rejected):
        await _refuse(exchange, request, EventKind.REJECTED, error_of(entry))
        return
    try:
        await _serve(gateway, exchange, request, entry)
    finally:
        entry.end(request)


async def _serve(
    gateway: Gateway,
    exchange: Exchange,
    request: InFlightRequest,
    entry: Entry,
) -> None:
    call, decision = entry.call, entry.decision
    request.apply(EventKind.ADMITTED)
    request.note_progress()
    output = Output(Backlog(call.read.deployment.policy.slow_clients))
    engine_side = EngineSide(
        request=request,
        request_class=decision.request_class,
        lane=_lane(gateway, exchange, request, entry, call),
        fleet=gateway.fleet,
        output=output,
        release_seconds=gateway.settings.release_seconds,
        needs=call.read.needs,
        may_retry=entry.may_retry,
        stand_in=_stand_in(gateway, exchange, request, entry),
    )
    client_side = ClientSide(
        request=request,
        exchange=exchange,
        shape=_shape(request, entry),
        output=output,
        retry_after=entry.admission.retry_after_seconds,
    )
    engine_side.enter_queue()
    work = _work(engine_side, request, entry)
    engine_task = asyncio.create_task(work, name=f"engine side {request.request_id}")
    with gateway.ending_with(engine_side.cancel):
        try:
            if not await client_side.deliver():
                why = exchange.gave_up_reason or CLIENT_LEFT
                engine_side.cancel(Disposition.CANCELLED, why)
        except BaseException:
            engine_side.cancel(Disposition.ERROR, "the gateway failed")
            raise
        finally:
            try:
                await _outlast(engine_task)
            finally:
                engine_side.close()
                entry.settle(request)
            client_side.close_delivery()


async def _work(engine_side: EngineSide, request: InFlightRequest, entry: Entry) -> None:
    try:
        await engine_side.run()
    finally:
        entry.settle(request)


async def _outlast(task: "asyncio.Task[None]") -> None:
    """Wait for the engine side even when this request's own task is being cancelled."""
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
    task.result()


def _stand_in(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, entry: Entry
) -> StandIn | None:
    """For one that waits for a candidate's own replicas."""
    read = entry.call.read
    if not read.deployment.has_own_lane:
        return None

    async def find() -> Lane | None:
        # As it is enforced now: the stable arm may have moved on since.
        deployment = gateway.enforced.snapshot.find_named(read.deployment.name)
        if deployment is None:
            return None
        try:
            call = await count_for(gateway, read, deployment)
        except ApiRefusalError:
            return None
        request.deployment = deployment
        length = min(call.max_output_tokens, entry.call.max_output_tokens)
        call = dataclasses.replace(call, max_output_tokens=length)
        return _lane(gateway, exchange, request, entry, call)

    return find


def _lane(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, entry: Entry, call: Call
) -> Lane:
    return Lane(
        queue=gateway.fleet.queue_of(call.read.deployment.lane),
        demand=_demand(gateway, exchange, entry, call),
        template=_submission(request, call),
        is_length_open=call.read.document.output_limit is None,
    )


def _submission(request: InFlightRequest, call: Call) -> EngineRequest:
    return EngineRequest(
        request_id=request.request_id,
        attempt=0,
        endpoint=request.endpoint,
        sampling=sampling_of(call.read.document, call.max_output_tokens),
        prompt_token_ids=call.prompt.token_ids,
        body=call.read.body,
        is_stream=request.is_stream,
        isolation_key=call.read.tenant.name,
        traceparent=traceparent_of(request.trace),
    )


def _demand(gateway: Gateway, exchange: Exchange, entry: Entry, call: Call) -> QueueDemand:
    """What it asks of the queue, and of whoever chooses its replica."""
    read = call.read
    num_sequences = read.document.num_choices
    num_tokens = call.prompt.num_tokens + num_sequences * call.max_output_tokens
    return QueueDemand(
        num_slots=num_sequences,
        tenant=read.tenant.name,
        weight=read.deployment.policy.limits_of(read.tenant.name).weight,
        num_tokens=num_tokens,
        num_expected_tokens=entry.num_expected_tokens,
        num_bytes=exchange.body_lease.num_bytes,
        kv=None if entry.hold is None else entry.hold.kv,
        routing=routing_request(
            gateway.fleet.queue_of(read.deployment.lane).router,
            exchange.headers,
            read.tenant.name,
            call.prompt.num_tokens,
            max(0, entry.num_expected_tokens - call.prompt.num_tokens),
            call.prompt_blocks,
        ),
    )


def _shape(request: InFlightRequest, entry: Entry) -> AnswerShape:
    read = entry.call.read
    options = read.document.stream_options
    includes_usage = bool(options and options.include_usage)
    return AnswerShape(
        endpoint=request.endpoint,
        request_id=request.request_id,
        model=entry.model,
        created_at_unix=request.arrival.at_unix_ns // 10**9,
        fingerprint=read.deployment.model_revision,
        includes_usage=includes_usage,
        tells_usage_along=includes_usage and bool(options and options.continuous_usage_stats),
        num_choices=read.document.num_choices,
        includes_logprobs=read.document.num_logprobs is not None,
    )


async def _refuse(
    exchange: Exchange, request: InFlightRequest, kind: EventKind, error: ApiError
) -> None:
    """The end of a request that never reached a queue, and its answer."""
    request.apply(kind, reason=error.message)
    waited = await exchange.answer_error(error)
    request.apply(EventKind.LAST_WRITE, delivery=Delivery.NONE, waited_seconds=waited)

"""From a request that ended to its record, and from the record to everybody who reads it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dataplane.contract_terms import ContractTerms
from dataplane.gateway.callers import PROBE_TENANT
from dataplane.gateway.inflight import InFlightEntry, lost_record
from dataplane.gateway.openai_api.deltas import merge_deltas
from dataplane.gateway.registry import InFlightRequest
from dataplane.lifecycle import Observability
from dataplane.policy import ContractPolicy, DeploymentPolicy
from dataplane.record import RecordedContent, RequestRecord
from dataplane.recording import RequestEnd, end_record

TakeRecord = Callable[[RequestRecord], None]
"""Takes one record, at once and without fail."""


def build_entry(request: InFlightRequest, gateway_id: str) -> InFlightEntry:
    """What a crash should leave behind of a request, as far as it is known."""
    deployment, contract = request.deployment, _contract(request)
    model_revision, engine_config_revision = _revisions(request)
    return InFlightEntry(
        request_id=request.request_id,
        gateway_id=gateway_id,
        gateway_sequence=request.gateway_sequence,
        arrived_at_unix_ns=request.lifecycle.arrived_at_unix_ns,
        endpoint=request.endpoint,
        trace=request.trace,
        snapshot_version=request.snapshot_version,
        tenant=request.tenant_name,
        request_class=request.request_class,
        deployment=deployment.name if deployment else None,
        model=request.model,
        model_revision=model_revision,
        engine_config_revision=engine_config_revision,
        contract_revision=contract.revision if contract else None,
        policy_revision=request.policy_revision,
        terms=_terms(request),
        is_stream=request.is_stream,
        num_prompt_tokens=request.num_prompt_tokens,
        prompt_tokens_observability=request.prompt_tokens_observability,
        max_output_tokens=request.max_output_tokens,
        engine=request.capabilities.engine if request.capabilities else None,
        replica_ids=tuple(request.replica_ids),
        has_written=request.has_written,
        rollout=request.rollout,
    )


def _revisions(request: InFlightRequest) -> tuple[str | None, str | None]:
    """Of the model and engine config that answered it; where nothing did, that would have."""
    deployment, replica = request.deployment, request.replica
    if deployment is None:
        return None, None
    if replica is None:
        return deployment.model_revision, deployment.engine_config_revision
    return (
        replica.model_revision or deployment.model_revision,
        replica.engine_config_revision or deployment.engine_config_revision,
    )


def build_record(request: InFlightRequest, gateway_id: str) -> RequestRecord:
    """The record of a request whose lifecycle has ended."""
    lifecycle = request.lifecycle
    request.settle_errors()
    capabilities = request.capabilities
    # What a crash would have left of it, with its real end in the place of the loss.
    return end_record(
        lost_record(build_entry(request, gateway_id)),
        lifecycle,
        RequestEnd(
            status_code=request.status,
            num_cached_tokens=request.num_cached_tokens,
            num_output_tokens=request.num_output_tokens,
            output_tokens_observability=request.output_tokens_observability
            or (capabilities.token_counts if capabilities else Observability.OBSERVED),
            cleanup_observability=(
                capabilities.cleanup if capabilities else Observability.UNOBSERVABLE
            ),
            terms=_terms(request),
            elapsed=request.now(),
            content=_content(request),
            decision=request.decision,
            shadow=request.shadow,
            routing=tuple(request.routing),
            metered=request.metering.total,
        ),
    )


def _contract(request: InFlightRequest) -> ContractPolicy | None:
    """None for a probe: nobody was promised anything, and its first tokens come from an engine that
    has hardly started."""
    if request.deployment is None or request.tenant_name == PROBE_TENANT:
        return None
    return _promised(request, request.deployment)


def _promised(request: InFlightRequest, deployment: DeploymentPolicy) -> ContractPolicy | None:
    """By the contract in force when the first byte arrived; a deployment that was not there yet
    promises what it did when the body was. Policies are those of that later moment."""
    then = request.enforced_at_arrival
    if then.version == request.snapshot_version:
        return deployment.contract
    named = (each for each in then.deployments if each.name == deployment.name)
    return next(named, deployment).contract


def _terms(request: InFlightRequest) -> ContractTerms | None:
    contract = _contract(request)
    if contract is None or request.request_class is None:
        return None
    return contract.terms_by_class.get(request.request_class)


def _content(request: InFlightRequest) -> RecordedContent | None:
    if request.prompt_text is None or request.output_parts is None:
        return None
    outputs = {index: _output(parts) for index, parts in sorted(request.output_parts.items())}
    if request.lifecycle.num_sequences == 1:
        return RecordedContent(prompt=request.prompt_text, output="".join(outputs.values()))
    output = "\n\n".join(f"[{index}] {text}" for index, text in outputs.items())
    return RecordedContent(prompt=request.prompt_text, output=output)


def _output(parts: list[str | Mapping[str, Any]]) -> str:
    """The text, and below it what else the answer held, such as tool calls, as JSON."""
    text = "".join(part for part in parts if isinstance(part, str))
    merged = merge_deltas(part for part in parts if not isinstance(part, str))
    return text + (msgspec.json.encode(merged).decode() if merged else "")

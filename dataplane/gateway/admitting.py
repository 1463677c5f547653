"""Admission of one call at a gateway, and what its answer says of it.

Where its deployment is degraded and names a fallback, that one is asked first; where it cannot
take the call, the deployment that was asked for decides anew, since time has passed. Between the
decision and the place in the queue nothing else happens in this process.
"""

import dataclasses
from dataclasses import dataclass

from dataplane.admission.admit import Admitted, Rejected, RejectionKind
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.deployment_admission import (
    AdmissionHold,
    Arrival,
    Considered,
    DeploymentAdmission,
)
from dataplane.admission.retry_budget import RETRY_COUNT_HEADER
from dataplane.admission_record import admission_record, rejection_record
from dataplane.gateway.counting import Call, count_for, note_count
from dataplane.gateway.exchange import Exchange
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.openai_api.errors import ApiError, ApiRefusalError
from dataplane.gateway.receiving import ReadCall
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.shadowing import decide_in_shadow
from dataplane.gateway.status import PROBE_HEADER
from dataplane.lifecycle import ANSWERS, Delivery

POLICY_HEADER = "x-pilothouse-policy"
"""On every answer that a policy decided on: its revision."""
DEGRADED_HEADER = "x-pilothouse-degraded"
"""What was taken from an answer, and why."""
_SHOULD_RETRY_HEADER = "x-should-retry"
"""OpenAI's clients heed it."""
# Never shown to a policy's expressions: a class must not depend on a secret.
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", PROBE_HEADER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A call that was let in."""

    call: Call
    """As it is served: perhaps by another deployment, perhaps with a shorter answer."""
    decision: Admitted
    admission: DeploymentAdmission
    """Of the deployment that serves it."""
    num_expected_tokens: int
    hold: AdmissionHold | None
    fallback: str | None = None
    """The deployment, where it stands in for the one that was asked for."""
    shadow: AdmissionHold | None = None
    """What a policy that only looks on would have it hold."""

    @property
    def model(self) -> str:
        """What its answer calls the model: what its caller did, or the deployment that stands in
        for that."""
        return self.fallback or self.call.read.document.model

    def may_retry(self) -> bool:
        """Whether the budget leaves one more try on another replica."""
        return self.admission.may_retry(self.call.read.deployment.policy)

    def settle(self, request: InFlightRequest) -> None:
        """What it took is known, and it takes no more: a client that only reads the rest keeps
        nothing of its tenant's. Twice is no error."""
        for hold in (self.hold, self.shadow):
            if hold is not None:
                self._charge(hold, request)
                hold.release()

    def _charge(self, hold: AdmissionHold, request: InFlightRequest) -> None:
        lifecycle, num_output = request.lifecycle, request.num_output_tokens
        if not lifecycle.was_scheduled:
            hold.settle(0)
            return
        lengths = [num_output // lifecycle.num_sequences] * lifecycle.num_sequences
        is_answer = lifecycle.disposition in ANSWERS
        hold.settle((request.num_prompt_tokens or 0) + num_output, lengths if is_answer else ())

    def end(self, request: InFlightRequest) -> None:
        """It is over, however it ended."""
        for hold in (self.hold, self.shadow):
            if hold is not None:
                hold.release()
        _remember(self.admission, self.call.read, is_answered=_is_answered(request))


def refuse_uncounted(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, read: ReadCall
) -> Rejected | None:
    """The refusal of a call that would be refused however short it were; None: it may not be, or
    nobody can tell before it is counted.

    To count the prompts of those who are refused would cost most where there is least to give.
    """
    policy = read.enforced.policy_of(read.deployment)
    admission = gateway.fleet.admission_of(read.deployment)
    if not admission.may_refuse(policy, read.tenant.name):
        return None
    arrival = _arrival(admission, exchange, request, read, 1, 1)
    considered = _decide(gateway, admission, read, arrival, only_looks=True)
    decision = considered.decision
    if not isinstance(decision, Rejected) or decision.fallback is not None:
        return None
    if decision.kind is RejectionKind.TENANT_TOKENS:
        return None  # when to come again depends on how long it is
    decide_in_shadow(gateway, request, read, admission, arrival, is_counted=False)
    return _reject(exchange, request, read, admission, arrival, considered, decision)


async def enter(
    gateway: Gateway, exchange: Exchange, request: InFlightRequest, call: Call
) -> Entry | Rejected:
    """Decide on a call, and let it in or refuse it; its request is told what was decided."""
    admission = gateway.fleet.admission_of(call.read.deployment)
    arrival = _counted_arrival(admission, exchange, request, call)
    shadow = decide_in_shadow(gateway, request, call.read, admission, arrival)
    entry = await _enter(gateway, exchange, request, call, admission, arrival)
    if isinstance(entry, Entry):
        return dataclasses.replace(entry, shadow=shadow)
    if shadow is not None:
        shadow.release()  # nobody knows how long it would have been served
    return entry


async def _enter(
    gateway: Gateway,
    exchange: Exchange,
    request: InFlightRequest,
    call: Call,
    admission: DeploymentAdmission,
    arrival: Arrival,
) -> Entry | Rejected:
    considered = _decide(gateway, admission, call.read, arrival)
    fallback = considered.decision.fallback
    if fallback is not None:
        found = await _enter_fallback(gateway, exchange, request, call, considered, fallback)
        if found is not None:
            return found
        considered = _decide(gateway, admission, call.read, arrival)
    decision = considered.decision
    if isinstance(decision, Rejected):
        return _reject(exchange, request, call.read, admission, arrival, considered, decision)
    degraded = _shortened(call, decision)
    _note(exchange, request, decision)
    _say_degraded(exchange, degraded, decision.why_degraded)
    request.max_output_tokens = decision.max_output_tokens
    request.decision = admission_record(
        considered,
        decision,
        arrival.facts,
        request.snapshot_version,
        degraded,
        decision.why_degraded if degraded else None,
    )
    return _take(admission, arrival, considered, decision, call)


def error_of(rejected: Rejected) -> ApiError:
    """The answer of one that was refused."""
    return ApiError(
        status=rejected.status,
        message=f"Rejected: {rejected.reason}.",
        code=rejected.kind,
        retry_after_seconds=rejected.retry_after_seconds,
        policy_revision=rejected.policy_revision,
    )


async def _enter_fallback(
    gateway: Gateway,
    exchange: Exchange,
    request: InFlightRequest,
    call: Call,
    asked: Considered,
    name: str,
) -> Entry | None:
    """Let it in at the deployment that stands in; None: that one cannot serve it now."""
    deployment = call.read.enforced.snapshot.find_named(name)
    if deployment is None:
        return None
    try:
        other = await count_for(gateway, call.read, deployment)
    except ApiRefusalError:
        return None
    admission = gateway.fleet.admission_of(deployment)
    arrival = _counted_arrival(admission, exchange, request, other)
    considered = _decide(gateway, admission, other.read, arrival)
    decision = considered.decision
    if isinstance(decision, Rejected):
        return None
    why = asked.decision.why_degraded
    degraded = (f"fallback={name}", *_shortened(other, decision))
    note_count(request, other)
    request.max_output_tokens = decision.max_output_tokens
    _note(exchange, request, decision)
    _say_degraded(exchange, degraded, why)
    request.decision = admission_record(
        considered, decision, arrival.facts, request.snapshot_version, degraded, why, name
    )
    return _take(admission, arrival, considered, decision, other, name)


def _reject(
    exchange: Exchange,
    request: InFlightRequest,
    read: ReadCall,
    admission: DeploymentAdmission,
    arrival: Arrival,
    considered: Considered,
    decision: Rejected,
) -> Rejected:
    admission.refuse(arrival)
    _remember(admission, read, is_answered=False)
    _note(exchange, request, decision)
    request.decision = rejection_record(considered, decision, request.snapshot_version)
    return decision


def _counted_arrival(
    admission: DeploymentAdmission, exchange: Exchange, request: InFlightRequest, call: Call
) -> Arrival:
    num_prompt, num_output = call.prompt.num_tokens, call.max_output_tokens
    return _arrival(admission, exchange, request, call.read, num_prompt, num_output)


def _arrival(
    admission: DeploymentAdmission,
    exchange: Exchange,
    request: InFlightRequest,
    read: ReadCall,
    num_prompt_tokens: int,
    max_output_tokens: int,
) -> Arrival:
    told = exchange.headers.get(RETRY_COUNT_HEADER)
    num_choices = read.document.num_choices
    return Arrival(
        tenant=read.tenant,
        facts=RequestFacts(
            model=request.model or "",
            stream=request.is_stream,
            num_prompt_tokens=num_prompt_tokens,
            max_output_tokens=max_output_tokens,
            headers={k: v for k, v in exchange.headers.items() if k not in _SECRET_HEADERS},
            num_sequences=num_choices,
            num_bytes=exchange.body_lease.num_bytes,
        ),
        num_slots=num_choices,
        why_retry=admission.retries.find_retry(read.tenant.name, told, read.fingerprint),
    )


def _decide(
    gateway: Gateway,
    admission: DeploymentAdmission,
    read: ReadCall,
    arrival: Arrival,
    *,
    only_looks: bool = False,
) -> Considered:
    return admission.consider(
        read.enforced.policy_of(read.deployment),
        arrival,
        num_replicas=len(read.deployment.replicas),
        is_draining=gateway.is_draining,
        overrides=read.enforced.snapshot.overrides,
        only_looks=only_looks,
    )


def _take(
    admission: DeploymentAdmission,
    arrival: Arrival,
    considered: Considered,
    decision: Admitted,
    call: Call,
    fallback: str | None = None,
) -> Entry:
    return Entry(
        call=dataclasses.replace(call, max_output_tokens=decision.max_output_tokens),
        decision=decision,
        admission=admission,
        num_expected_tokens=considered.num_expected_tokens,
        hold=admission.hold(arrival, considered),
        fallback=fallback,
    )


def _note(exchange: Exchange, request: InFlightRequest, decision: Admitted | Rejected) -> None:
    request.policy_revision = decision.policy_revision
    if decision.request_class is not None:
        request.request_class = decision.request_class.name
    exchange.say(POLICY_HEADER, decision.policy_revision)
    if isinstance(decision, Rejected) and decision.kind.is_for_good:
        exchange.say(_SHOULD_RETRY_HEADER, "false")


def _say_degraded(exchange: Exchange, degraded: tuple[str, ...], why: str | None) -> None:
    if degraded:
        exchange.say(DEGRADED_HEADER, f"{', '.join(degraded)}; {why}")


def _shortened(call: Call, decision: Admitted) -> tuple[str, ...]:
    """What is taken from an answer's length, in words."""
    limit = decision.max_output_tokens
    return (f"max_tokens={limit}",) if limit < call.max_output_tokens else ()


def _is_answered(request: InFlightRequest) -> bool:
    lifecycle = request.lifecycle
    return lifecycle.disposition in ANSWERS and lifecycle.delivery is Delivery.COMPLETE


def _remember(admission: DeploymentAdmission, read: ReadCall, *, is_answered: bool) -> None:
    """The same body that comes again is a retry where this one was not answered."""
    if read.fingerprint is None:
        return
    if is_answered:
        admission.retries.forget(read.tenant.name, read.fingerprint)
    else:
        admission.retries.remember(read.tenant.name, read.fingerprint)

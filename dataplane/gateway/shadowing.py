"""What a rollout's candidate policy would have decided about a call, while it only looks on.

Whatever goes wrong here is told in the request's record and felt by nobody.
"""

import structlog

from dataplane.admission.admit import Admitted
from dataplane.admission.deployment_admission import AdmissionHold, Arrival, DeploymentAdmission
from dataplane.admission.shadow import Shadowed
from dataplane.admission_record import admission_record, rejection_record
from dataplane.arm import Arm
from dataplane.decision import AdmissionDecision, ShadowDecision, clip
from dataplane.gateway.callers import PROBE_TENANT
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.receiving import ReadCall
from dataplane.gateway.registry import InFlightRequest
from dataplane.policy import RolloutTerms

_log = structlog.get_logger(__name__)


def decide_in_shadow(
    gateway: Gateway,
    request: InFlightRequest,
    read: ReadCall,
    admission: DeploymentAdmission,
    arrival: Arrival,
    *,
    is_counted: bool = True,
) -> AdmissionHold | None:
    """Note in the request what the candidate's policy says of it; what that would hold is returned
    for as long as it is served. `is_counted`: how long its prompt is, is known."""
    place = request.rollout
    if place is None or place.arm is not Arm.STABLE or request.tenant_name == PROBE_TENANT:
        return None
    rollout = read.enforced.snapshot.find_rollout(read.deployment.name)
    if rollout is None or not rollout.is_shadow:
        return None
    try:
        shadowed = gateway.shadows.decide(
            rollout,
            read.enforced.policy_of(rollout.candidate),
            admission,
            arrival,
            len(read.deployment.replicas),
            read.enforced.snapshot.overrides,
            is_counted=is_counted,
        )
        return _note(request, rollout, shadowed, arrival, is_counted=is_counted)
    except Exception as error:  # noqa: BLE001
        why = clip(f"{type(error).__name__}: {error}")
        _log.error("a policy in shadow decided nothing", request_id=request.request_id, why=why)
        request.shadow = ShadowDecision(rollout=rollout.number, why_none=why)
        return None


def _note(
    request: InFlightRequest,
    rollout: RolloutTerms,
    shadowed: Shadowed,
    arrival: Arrival,
    *,
    is_counted: bool,
) -> AdmissionHold | None:
    if not is_counted and isinstance(shadowed.considered.decision, Admitted):
        why = "it was refused before its prompt was counted"
        request.shadow = ShadowDecision(rollout=rollout.number, why_none=why)
        return None
    decision = _decision(request, shadowed, arrival)
    request.shadow = ShadowDecision(rollout=rollout.number, decision=decision)
    return shadowed.hold


def _decision(request: InFlightRequest, shadowed: Shadowed, arrival: Arrival) -> AdmissionDecision:
    considered = shadowed.considered
    decision = considered.decision
    if not isinstance(decision, Admitted):
        return rejection_record(considered, decision, request.snapshot_version)
    limit, fallback = decision.max_output_tokens, decision.fallback
    degraded = [f"max_tokens={limit}"] if limit < arrival.facts.max_output_tokens else []
    degraded += [] if fallback is None else [f"fallback={fallback}"]
    return admission_record(
        considered,
        decision,
        arrival.facts,
        request.snapshot_version,
        tuple(degraded),
        decision.why_degraded if degraded else None,
        fallback,
    )

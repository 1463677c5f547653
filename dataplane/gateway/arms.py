"""Which arm of its deployment's rollout a call belongs to, and what becomes of it there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dataplane.arm import Arm, choose_arm
from dataplane.gateway.exchange import Exchange
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.registry import InFlightRequest
from dataplane.policy import DeploymentPolicy, RolloutTerms, Snapshot
from dataplane.record import RolloutPlace

ROLLOUT_HEADER = "x-pilothouse-rollout"
"""On every answer under a rollout: its number and the arm."""
_SESSION_FIELDS = ("prompt_cache_key", "safety_identifier", "user")
"""Of a body: what tells sessions or people apart where no header does."""


def take_arm(
    gateway: Gateway,
    exchange: Exchange,
    request: InFlightRequest,
    snapshot: Snapshot,
    deployment: DeploymentPolicy,
    body: Mapping[str, Any],
) -> DeploymentPolicy:
    """The deployment as the call's arm has it; its request is told. Of a candidate that cannot be
    reached nobody is asked to wait: then no arm is noted, since neither would be told apart."""
    rollout = snapshot.find_rollout(deployment.name)
    if rollout is None:
        return deployment
    tenant = request.tenant_name or ""
    session = _session(rollout, exchange, request, body)
    arm = choose_arm(rollout.number, rollout.share, tenant, session)
    candidate = rollout.candidate
    if arm is Arm.CANDIDATE and candidate.has_own_lane and not gateway.fleet.is_reached(candidate):
        return deployment
    request.rollout = RolloutPlace(number=rollout.number, arm=arm)
    exchange.say(ROLLOUT_HEADER, f"{rollout.number} {arm}")
    if arm is Arm.STABLE:
        return deployment
    if candidate.has_own_lane:
        return candidate
    return replace(candidate, replicas=deployment.replicas)


def _session(
    rollout: RolloutTerms, exchange: Exchange, request: InFlightRequest, body: Mapping[str, Any]
) -> str:
    """What keeps to one arm. Who names nothing of the kind is a session for each request."""
    header = rollout.sticky_header
    named = [None if header is None else exchange.headers.get(header)]
    named += [body.get(name) for name in _SESSION_FIELDS]
    found: str = next((each for each in named if isinstance(each, str) and each), "")
    return found or request.request_id

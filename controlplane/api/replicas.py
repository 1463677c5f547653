"""Replicas and deployments: what should run, what does, and what happened."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request

from controlplane.operator.observed import ObservedReplica
from controlplane.store.deployments import DesiredDeployment, list_deployments
from controlplane.store.replicas import list_transitions

router = APIRouter(prefix="/api/v1", tags=["replicas"])


@router.get("/replicas")
def list_replicas(
    request: Request,
    deployment: str | None = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 100,
) -> dict[str, Any]:
    """Replicas that have not ended, as last observed, and the newest `limit` transitions."""
    state = request.app.state
    observed = [
        replica
        for replica in state.observed.replicas()
        if deployment is None or replica.deployment == deployment
    ]
    with state.config_db.reading() as session:
        history = list_transitions(session, deployment=deployment, limit=limit)
    return {
        "replicas": msgspec.to_builtins(observed),
        "history": msgspec.to_builtins(history),
    }


@router.get("/deployments")
def list_all_deployments(request: Request) -> dict[str, Any]:
    """Every deployment: desired, how far it was brought about, and its replicas."""
    state = request.app.state
    with state.config_db.reading() as session:
        deployments = list_deployments(session)
    replicas = state.observed.replicas()
    holds: dict[str, str] = state.operator.holds
    return {
        "deployments": [
            _view(each, [r for r in replicas if r.deployment == each.name], holds.get(each.name))
            for each in deployments
        ]
    }


def _view(
    desired: DesiredDeployment, replicas: list[ObservedReplica], hold: str | None
) -> dict[str, Any]:
    revisions = desired.revisions
    return {
        "name": desired.name,
        "model": revisions.model.name,
        "generation": desired.generation,
        "observed_generation": desired.observed_generation,
        "num_replicas": desired.spec.replicas,
        "num_ready": sum(replica.state == "ready" for replica in replicas),
        "hold": hold,
        "launcher": desired.spec.launcher,
        "revisions": {
            "deployment": revisions.deployment.label,
            "model": revisions.model.label,
            "engine_config": revisions.engine_config.label,
            "policy": revisions.policy.label,
            "contract": revisions.contract.label if revisions.contract else None,
        },
        "updated_at_unix_ns": desired.updated_at_unix_ns,
        "replicas": msgspec.to_builtins(replicas),
    }

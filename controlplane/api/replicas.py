"""Replicas: what runs, and what happened."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request

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

"""Replicas: what runs, and what happened."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request

from controlplane.store.replicas import list_transitions
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["replicas"])


@router.get("/replicas")
def list_replicas(
    request: Request,
    deployment: str | None = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 100,
) -> dict[str, Any]:
    """Replicas that have not ended, as last observed, processes that should not be, and the newest
    `limit` transitions. What was observed is as old as `as_of_unix_ns` less its own time."""
    state = request.app.state
    observed = [
        replica
        for replica in state.observed.replicas()
        if deployment is None or replica.deployment == deployment
    ]
    with state.config_db.reading() as session:
        history = list_transitions(session, deployment=deployment, limit=limit)
    return {
        "as_of_unix_ns": wall_clock(),
        "strays": msgspec.to_builtins(state.observed.strays()),
        "strays_unseen": state.observed.strays_unseen(),
        "replicas": msgspec.to_builtins(observed),
        "history": msgspec.to_builtins(history),
    }

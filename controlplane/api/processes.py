"""What became of gateways and control planes: their failures, whose key is refused, and when a
database was away."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request

from controlplane.process_history import ProcessHistory

router = APIRouter(prefix="/api/v1/processes", tags=["processes"])


@router.get("/history")
def get_history(
    request: Request, limit: Annotated[int, Query(ge=0, le=1000)] = 100
) -> dict[str, Any]:
    """The newest `limit` events of this installation's own processes, the newest first.

    Those that no supervisor watches (systemd, Kubernetes) are in its history, not in this one.
    """
    history: ProcessHistory = request.app.state.process_history
    return {"history": msgspec.to_builtins(history.read(limit))}

"""Where Prometheus finds the metrics of replicas, which come and go on addresses of their own.

In the form that its `http_sd_configs` asks for: it polls, and the answer is always whole.
"""

from typing import Any

from fastapi import APIRouter, Request

from controlplane.operator.observed import ObservedState
from dataplane import names

router = APIRouter(prefix="/api/v1/scrape-targets", tags=["metrics"])


@router.get("/replicas")
def list_replica_targets(request: Request) -> list[dict[str, Any]]:
    """One group for each replica of this project's own engines that shows metrics now."""
    observed: ObservedState = request.app.state.observed
    return [
        {
            "targets": [replica.metrics_address],
            "labels": {
                names.LABEL_REPLICA: replica.replica_id,
                names.LABEL_DEPLOYMENT: replica.deployment,
            },
        }
        for replica in observed.replicas()
        if replica.metrics_address is not None
    ]

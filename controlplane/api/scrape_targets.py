"""Where Prometheus finds the metrics of replicas, which come and go on addresses of their own, and
of servers that are only observed.

In the form that its `http_sd_configs` asks for: it polls, and the answer is always whole.
"""

from typing import Any
from urllib.parse import urlsplit

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


@router.get("/observed")
def list_observed_targets(request: Request) -> list[dict[str, Any]]:
    """One group for each server that is only observed and shows metrics, with where its page is:
    the rules that judge its objectives need the label of its deployment."""
    observed: ObservedState = request.app.state.observed
    found = []
    for replica in observed.replicas():
        page = None if replica.look is None else replica.look.page
        if page is None or not replica.is_observed_only:
            continue
        url = urlsplit(page)
        labels = {
            "__scheme__": url.scheme,
            "__metrics_path__": url.path,
            names.LABEL_REPLICA: replica.replica_id,
            names.LABEL_DEPLOYMENT: replica.deployment,
        }
        found.append({"targets": [url.netloc.rpartition("@")[2]], "labels": labels})
    return found

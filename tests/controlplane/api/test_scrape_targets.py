"""Prometheus finds every replica that shows metrics, and asks for nothing else."""

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api import scrape_targets
from controlplane.operator.observed import ObservedReplica, ObservedState


def replica(replica_id: str, metrics_address: str | None) -> ObservedReplica:
    return ObservedReplica(
        replica_id=replica_id,
        deployment="chat",
        engine="paged",
        model_revision="tiny@1",
        state="ready",
        reason="it generated a token",
        stage="serving",
        pid=1,
        address="127.0.0.1:1",
        metrics_address=metrics_address,
        start_stages={},
        probed_at_unix_ns=None,
        observed_at_unix_ns=0,
    )


def test_replicas_with_metrics_are_targets_under_their_ids() -> None:
    app = FastAPI()
    app.state.observed = ObservedState()
    app.include_router(scrape_targets.router)
    with TestClient(app) as http:
        path = "/api/v1/scrape-targets/replicas"
        assert http.get(path).json() == []
        app.state.observed.set_replicas(
            [replica("chat-1", "127.0.0.1:9001"), replica("chat-2", None)]
        )
        assert http.get(path).json() == [
            {"targets": ["127.0.0.1:9001"], "labels": {"replica": "chat-1", "deployment": "chat"}}
        ]

"""Prometheus finds every replica that shows metrics, and asks for nothing else."""

from dataclasses import replace

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api import scrape_targets
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.operator.page_look import PageLook
from dataplane.engine_metrics.bucket_edges import EdgesByName


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


def observed_replica(replica_id: str, edges: EdgesByName) -> ObservedReplica:
    look = PageLook(
        at_unix_ns=0,
        page="http://10.0.0.1:8000/metrics",
        page_at_unix_ns=0,
        num_running=0,
        num_waiting=0,
        max_num_seqs=8,
        silence=None,
        silent_since_unix_ns=None,
        num_silent=0,
        why="",
        latency_edges=edges,
    )
    return replace(
        replica(replica_id, None),
        deployment="seen",
        engine="vllm",
        is_observed_only=True,
        look=look,
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


def test_a_server_that_is_only_observed_is_a_target_under_the_label_that_its_rules_ask_for() -> (
    None
):
    app = FastAPI()
    app.state.observed = ObservedState()
    app.include_router(scrape_targets.router)
    unseen = replace(observed_replica("seen-2", {}), look=None)
    with TestClient(app) as http:
        path = "/api/v1/scrape-targets/observed"
        assert http.get(path).json() == []
        app.state.observed.set_replicas(
            [observed_replica("seen-1", {}), unseen, replica("chat-1", "127.0.0.1:9001")]
        )
        [group] = http.get(path).json()
    assert group["targets"] == ["10.0.0.1:8000"]
    assert group["labels"] == {
        "__scheme__": "http",
        "__metrics_path__": "/metrics",
        "replica": "seen-1",
        "deployment": "seen",
    }

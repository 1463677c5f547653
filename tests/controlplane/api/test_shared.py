"""What requests share is there before the first of them, and stays the same."""

from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient

from ops.seeded_console import close_app
from ops.seeded_console import create_app as create_seeded_app
from tests.controlplane.guarded_plane import guarded_plane

SHARED = (
    "closing",
    "contract_terms",
    "gateway_samples",
    "request_changes",
    "span_counters",
    "span_intake",
)


def ids_of_shared(app: FastAPI) -> dict[str, int]:
    return {name: id(getattr(app.state, name)) for name in SHARED}


def test_the_application_makes_it_with_itself(tmp_path: Path) -> None:
    with guarded_plane(tmp_path) as plane:
        before = ids_of_shared(plane.app)
        plane.http.get("/metrics")
        plane.http.post("/v1/traces", json={})
        assert ids_of_shared(plane.app) == before


def test_the_seeded_console_makes_the_same(tmp_path: Path) -> None:
    app = create_seeded_app(tmp_path)
    before = ids_of_shared(app)
    TestClient(app, base_url="http://127.0.0.1").post("/v1/traces", json={})
    assert ids_of_shared(app) == before
    close_app(app)

"""Rules of a contract at the boundary of the client, whose latencies no gateway ever knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dataplane.access import Role
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
)
from tests.controlplane.guarded_plane import guarded_plane

CONTRACT = DESIGN_CONTRACT.replace("boundary: server", "boundary: client")
LATENCIES = ("ttft", "tpot")


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[TestClient]:
    with guarded_plane(tmp_path) as plane:
        yield plane.bearing(plane.key(Role.ADMIN, name="root"))


def test_rules_are_made_of_what_gateways_count_alone_and_the_others_are_told(
    admin: TestClient,
) -> None:
    texts = (MODEL, ENGINE, DESIGN_POLICY, DEPLOYMENT, CONTRACT)
    files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]
    applied = admin.post("/api/v1/apply", json={"files": files, "reason": "for the test"})
    assert applied.status_code == 200, applied.text
    warned = {each["key"] for each in applied.json()["warnings"]}
    places = {f"spec.classes.interactive.objectives[{index}].signal" for index in range(2)}
    assert places <= warned

    made = admin.get("/api/v1/slo/rules/chat").json()
    assert 'objective="availability"' in made["rules"]
    for objective in (*LATENCIES, "together"):
        assert f'objective="{objective}"' not in made["rules"]
        assert any(f"interactive {objective}: " in each for each in made["left_out"])
